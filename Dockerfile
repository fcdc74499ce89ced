# The same tree as `make image`, for who has Docker: docker build -t lockstep .
FROM debian:12 AS build
COPY packages.txt /src/
RUN apt-get update && xargs apt-get install -y --no-install-recommends python3 binutils ca-certificates < /src/packages.txt
COPY . /src
RUN make -C /src -j"$(nproc)" build/release/lockstep && cd /src && tools/image build/release/lockstep "$(build/release/lockstep version | cut -d' ' -f2)" --root /image

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/bin HOME=/tmp
USER 1000:1000
WORKDIR /tmp
ENTRYPOINT ["lockstep"]
