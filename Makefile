# make            build               make check                     build and run the C tests
# make DEV=1      warnings fatal      make SAN=address,undefined     a second build beside the first
# make test       what ./test runs    make bench                     us and the peers, alternated
# make interop    with real others    make long                      what takes hours
# make e2e        on a real cluster   make crash                     kills and torn files
# make fuzz       short fuzzing       make check-arm64               C tests for arm64, emulated
# make format     clang-format        make fresh                     ./run and ./test on a bare Debian 12
# make image      the OCI image       make check-image               the same bytes, and does it run?
NAME     := lockstep
VERSION  := 0.1.0
CC       ?= cc
PREFIX   ?= /usr/local
comma    := ,
BUILD    := build/$(subst $(comma),-,$(or $(SAN),release))
OPT      ?= $(if $(SAN),-O1,-O2)

CPPFLAGS += -Isrc -Iinclude -I$(BUILD)/lists -include src/base/poison.h -DLOCKSTEP_VERSION='"$(VERSION)"'
CFLAGS   += -std=c17 $(OPT) -g -fPIC -fopenmp -ffp-contract=fast -fno-math-errno -fno-trapping-math \
            -fvisibility=hidden -MMD -MP -Wall -Wextra \
            -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wno-format-truncation
CFLAGS   += $(if $(DEV),-Werror) \
            $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
LDFLAGS  += -fopenmp -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN))
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c))
LDLIBS   += $(shell pkg-config --libs ompi-c) -ldnnl -ljansson -lyaml -ljpeg -lpng16 -levent_extra -levent_core -levent_pthreads -lz -lm -ldl -lpthread

$(BUILD)/src/comm/%.o: CPPFLAGS += $(MPI_CFLAGS)

SOURCES  := $(filter-out src/cli/%,$(wildcard src/*/*.c src/*/*/*.c))
CLI      := $(filter-out src/cli/main.c,$(wildcard src/cli/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)
CLI_OBJECTS := $(CLI:%.c=$(BUILD)/%.o)
SUPPORT  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*/test_*.c tests/*/*/test_*.c))

all: $(BUILD)/$(NAME) $(BUILD)/liblockstep.so

# The program exports the public names, so that a user's shared object finds them in it.
$(BUILD)/$(NAME): $(BUILD)/src/cli/main.o $(CLI_OBJECTS) $(OBJECTS)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(LDLIBS)
$(BUILD)/liblockstep.so: $(OBJECTS)
	$(CC) $(LDFLAGS) -shared -Wl,-soname,liblockstep.so.0 -o $@ $^ $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(CLI_OBJECTS) $(OBJECTS)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ -lcmocka $(LDLIBS)
# Programs whose output a script of the interop tier compares with another program's.
$(BUILD)/tests/interop/%: $(BUILD)/tests/interop/%.o $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/%.o: %.c | lists
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/tests/%.o: CPPFLAGS += -Itests
# A seed means the same numbers everywhere, also where a*b+c could be one instruction, rounded once.
$(BUILD)/src/tensor/random.o: CFLAGS += -ffp-contract=off
# The live page is part of the program, and so are the descriptors of the services it has.
$(BUILD)/src/watch/page.o $(BUILD)/src/serve/rest_page.o: $(wildcard web/*)
PROTOS   := $(shell find proto -name '*.proto')
$(BUILD)/services.pb: $(PROTOS)
	@mkdir -p $(@D)
	protoc -Iproto --descriptor_set_out=$@ $^
$(BUILD)/src/serve/services.o: $(BUILD)/services.pb
$(BUILD)/src/serve/services.o: CPPFLAGS += -DSERVICES_FILE='"$(BUILD)/services.pb"'

# One line per file of a kind; replaced only when the set of files changes.
# $(call list,NAME,MACRO,files)
define list
$(BUILD)/lists/$(1).list: FORCE
	@mkdir -p $$(@D)
	@printf '$(2)(%s)\n' $$(basename $$(notdir $(3))) > $$@.new
	@cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
lists: $(BUILD)/lists/$(1).list
endef
$(eval $(call list,models,MODEL,$(filter-out %/registry.c,$(wildcard src/models/*.c))))
$(eval $(call list,ops,OP,$(filter-out %/registry.c src/ops/kernel_%.c,$(wildcard src/ops/*.c))))
$(eval $(call list,datasets,DATASET,$(wildcard src/data/sets/*.c)))
$(eval $(call list,optimizers,OPTIMIZER,$(wildcard src/train/optimizers/*.c)))
$(eval $(call list,kinds,KIND,$(wildcard src/k8s/kinds/*.c)))
$(eval $(call list,commands,COMMAND,$(patsubst src/cli/cmd_%,%,$(wildcard src/cli/cmd_*.c))))

# Reaching an accuracy takes minutes under a sanitizer and shows nothing that shorter runs do not.
SCRIPTS  := $(filter-out $(if $(SAN),tests/cli/test_mnist_% tests/ranks/test_ranks_bits%),\
              $(wildcard tests/cli/test_*.sh tests/ranks/test_*.sh tests/serve/test_*.sh))
# Ranks mostly wait: for each other, and for limits of time.
WAITING  := tests/ranks/%
CRASH_PARTS := $(BUILD)/tests/crash/tiny.so $(BUILD)/tests/crash/faults.so
# With libraries that are loaded at run time, gRPC's, the leak checker's own reading of thread-local
# memory crashes now and then.
export ASAN_OPTIONS := intercept_tls_get_addr=0$(if $(ASAN_OPTIONS),:$(ASAN_OPTIONS))
check: $(BUILD)/$(NAME) $(TESTS) $(CRASH_PARTS) $(BUILD)/tests/ranks/deep.so $(BUILD)/tests/cli/unready.so \
       $(BUILD)/tests/serve/grpc_server $(BUILD)/bench/delay
	@tools/check-layers src
	@LOCKSTEP=$(BUILD)/$(NAME) tools/run-tests $(TESTS) $(filter-out $(WAITING),$(SCRIPTS)) -- \
	    $(filter $(WAITING),$(SCRIPTS))

# The OpenMP runtime is not instrumented and would report falsely: only what starts threads itself.
THREAD_TESTS := $(addprefix $(BUILD)/tests/unit/,data/test_loader data/test_pictures data/test_shards \
                data/test_storage_s3 net/test_server net/test_server_arrival store/test_saver watch/test_spool \
                watch/test_outbox watch/test_mlflow watch/test_kubeflow watch/test_record watch/test_ranks \
                launch/test_agent launch/test_agent_led launch/test_leader launch/test_vault \
                serve/test_batcher serve/test_repository serve/test_rest_door serve/test_grpc_door serve/test_grpc_connection)
check-threads: export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/support/tsan.supp$(if $(TSAN_OPTIONS),:$(TSAN_OPTIONS))
check-threads: $(THREAD_TESTS)
	@tools/run-tests $(THREAD_TESTS)
.PHONY: check-threads

# For arm64, by a cross compiler, under an emulator.
check-arm64: $(BUILD)/$(NAME)
	@tools/install-packages packages-arm64.txt
	@tools/check-arm64
.PHONY: check-arm64

# Expected pages change only here, and the diff is read.
golden: $(BUILD)/$(NAME)
	@LOCKSTEP=$< tests/cli/test_pages.sh --update
	@LOCKSTEP=$< tests/cli/test_bench.sh --update
	@LOCKSTEP=$< tests/cli/test_k8s.sh --update
	@git diff --stat tests/golden docs/compatibility.md

# ---- bench: the yardstick, the example models, and us against the peers in one run ----
# BENCH=resnet50,vgg16,mnist,startup,saving,memory,recompute,size picks some; BENCH_FLAGS go to bench/run.
EXAMPLE_MODELS := $(patsubst %.c,$(BUILD)/%.so,\
                    $(shell grep -l "struct model model_user" examples/*.c))
all: $(EXAMPLE_MODELS)

# As a user would build it: the public header and nothing else.
$(BUILD)/examples/%.so: examples/%.c include/lockstep/model.h
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 -g -Wall -Wextra $(if $(DEV),-Werror) -Iinclude -fPIC -fvisibility=hidden \
	    -shared -o $@ $<
$(BUILD)/bench/primitives: $(patsubst %,$(BUILD)/bench/%.o,network peak primitives step)
	$(CC) $(LDFLAGS) -o $@ $^ -ldnnl -lm
$(BUILD)/bench/%_input: $(BUILD)/bench/%_input.o $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/bench/%_scan: $(BUILD)/bench/%_scan.o $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/bench/%.so: bench/%.c include/lockstep/model.h
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 -Iinclude -fPIC -fvisibility=hidden -shared -o $@ $<
bench: all $(addprefix $(BUILD)/bench/,primitives recompute)
	@bench/setup-peers
	@bench/run $(BENCH_FLAGS) $(subst $(comma), ,$(BENCH))
# Fails when a model has become slower, measured by oneDNN's primitives in the same run.
bench-guard: all $(BUILD)/bench/primitives
	@bench/run $(BENCH_FLAGS) guard
# BENCH=pictures,scan,rows,wide_deep,overlap picks some.
INPUT_BENCHES := $(addprefix $(BUILD)/bench/,primitives jpeg_input csv_input overlap tfrecord_scan tiny_pictures.so)
bench-input: all $(INPUT_BENCHES)
	@bench/setup-peers
	@bench/run-input $(BENCH_FLAGS) $(subst $(comma), ,$(BENCH))
# BENCH=resnet50,vgg16,wide_deep,shards picks some.
bench-ranks: all $(addprefix $(BUILD)/bench/,primitives scaling)
	@bench/setup-peers
	@bench/run-ranks $(BENCH_FLAGS) $(subst $(comma), ,$(BENCH))
# BENCH=resnet50,wide_deep picks some. Needs root, for network namespaces.
$(BUILD)/bench/delay: $(BUILD)/bench/delay.o
	$(CC) $(LDFLAGS) -o $@ $^
$(addprefix $(BUILD)/bench/,norms overlap recompute scaling served sums winograd): $(BUILD)/bench/%: $(BUILD)/bench/%.o $(CLI_OBJECTS) $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
bench-net: all $(addprefix $(BUILD)/bench/,primitives delay sums)
	@bench/run-net $(BENCH_FLAGS) $(subst $(comma), ,$(BENCH))

# What lockstep plan predicts against two ranks on links of a chosen rate; needs root.
bench-plan: all $(addprefix $(BUILD)/bench/,primitives sums)
	@bench/run-plan $(BENCH_FLAGS)

# How long a group stands still when one of its ranks is killed.
bench-agents: all $(BUILD)/bench/primitives
	@bench/run-agents $(BENCH_FLAGS)

# The server against onnxruntime and against TensorFlow behind grpcio. BENCH=resnet50,load,wide_deep.
bench-serve: all $(addprefix $(BUILD)/bench/,primitives served)
	@bench/run-serve $(BENCH_FLAGS) $(subst $(comma), ,$(BENCH))
.PHONY: bench bench-guard bench-input bench-ranks bench-net bench-plan bench-agents bench-serve

# ---- fuzz: each fuzz/fuzz_NAME.c for FUZZ_SECONDS on its corpus; what it finds stays in build/ ----
FUZZ_SECONDS ?= 10
# Clang brings the fuzzer; no OpenMP, whose runtime the sanitizers do not know.
FUZZ_FLAGS := -std=c17 -O1 -g -MMD -MP -fsanitize=fuzzer-no-link,address,undefined \
            -fno-sanitize-recover=all -Wall -Wno-unknown-pragmas $(if $(DEV),-Werror)
FUZZ_OBJECTS := $(patsubst %.c,build/fuzz/%.o,$(filter src/base/% src/tensor/% src/wire/% src/net/% src/data/% \
            src/serve/config.c src/serve/json_scan.c src/serve/base64.c src/serve/rest_predict.c src/serve/rest_write.c \
            src/serve/grpc_answer.c src/serve/grpc_request.c src/serve/grpc_wire.c src/serve/rest_examples.c src/serve/rest_v2.c src/serve/rest_path.c src/serve/examples.c \
            src/store/safetensors.c src/store/bundle% src/store/attempts.c src/store/manifest.c src/store/state.c \
            src/watch/reply.c src/predict/% src/graph/% src/exec/% src/ops/% src/models/% src/convert/% \
            src/serve/%_message.c src/serve/model_spec.c src/serve/value_list.c \
            src/launch/message.c src/launch/words.c src/launch/cluster.c src/k8s/%,$(SOURCES)))
FUZZERS  := $(patsubst fuzz/%.c,build/fuzz/%,$(wildcard fuzz/fuzz_*.c))

# Kernels are linked to fuzz what builds networks, and never run there; watching their unrolled loops would take
# the compiler minutes.
build/fuzz/src/ops/kernel_%.o: FUZZ_FLAGS += $(if $(filter x86_64,$(shell uname -m)),-mavx2 -mfma) \
            -fno-sanitize=fuzzer-no-link,address,undefined
build/fuzz/src/ops/kernel_%_sixteens.o build/fuzz/src/ops/kernel_winograd.o: \
            FUZZ_FLAGS += $(if $(filter x86_64,$(shell uname -m)),-mavx512f)
build/fuzz/%.o: %.c | lists
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(FUZZ_FLAGS) -c -o $@ $<
build/fuzz/fuzz_%: build/fuzz/fuzz/fuzz_%.o $(FUZZ_OBJECTS)
	clang -fsanitize=fuzzer,address,undefined -Wl,--as-needed -o $@ $^ -ldnnl -ljansson -lyaml -ljpeg -lpng16 -levent_extra -levent_core -levent_pthreads -lz -lm -lpthread
fuzz: $(FUZZERS)
	@tools/fuzz $(FUZZ_SECONDS) $(FUZZERS)
.PHONY: fuzz

# ---- interop: what others made and read, with packages from PyPI, npm and Go ----
interop: all
	@tools/install-packages packages-interop.txt
	@INTEROP_PYTHON=$$(tools/venv interop tensorflow-cpu==2.21.0 tensorboard==2.21.0) tests/interop/run
.PHONY: interop

# ---- e2e: a real Kubernetes with two operators, built from Debian packages and Go modules, runs all we render ----
e2e: all
	@tools/install-packages packages-e2e.txt
	@tests/e2e/run --evidence evidence/e2e-$$(date -u +%F) $(E2E)
.PHONY: e2e

# ---- crash: kills, torn files and failing disks while checkpoints are saved; CRASH_FLAGS go on ----
$(BUILD)/tests/%.so: tests/%.c include/lockstep/model.h
	@mkdir -p $(@D)
	$(CC) -std=c17 -O1 -g -Wall -Wextra $(if $(DEV),-Werror) -Iinclude -fPIC -shared -o $@ $<
crash: $(BUILD)/$(NAME) $(CRASH_PARTS)
	@tests/crash/run $(CRASH_FLAGS)
.PHONY: crash

# ---- long: hours ----
long:
	@$(MAKE) --no-print-directory crash CRASH_FLAGS="--long"
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600
	@$(MAKE) --no-print-directory $(BUILD)/bench/delay
	@tests/ranks/chaos 300 $$(date +%s) >evidence/chaos-$$(date -u +%F).txt
	@tests/serve/soak --seconds 3600 $(BUILD)/$(NAME)
	@tests/accuracy/criteo
	@tests/accuracy/imagenette
	@$(MAKE) --no-print-directory fresh
.PHONY: long

# ---- install: the program, the library with its headers and pkg-config file, manual, completion ----
$(BUILD)/lockstep.pc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'Name: lockstep' 'Version: $(VERSION)' \
	    'Description: trains reference deep-learning models on CPUs' \
	    'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -llockstep' > $@
install: $(BUILD)/$(NAME) $(BUILD)/liblockstep.so $(BUILD)/lockstep.pc
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include/lockstep $(DESTDIR)$(PREFIX)/share/man/man1 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -s $(BUILD)/$(NAME) $(DESTDIR)$(PREFIX)/bin/$(NAME)
	ln -sf $(NAME) $(DESTDIR)$(PREFIX)/bin/kubectl-$(NAME)
	install -m 644 $(BUILD)/liblockstep.so $(DESTDIR)$(PREFIX)/lib/liblockstep.so.0
	ln -sf liblockstep.so.0 $(DESTDIR)$(PREFIX)/lib/liblockstep.so
	install -m 644 include/lockstep/*.h $(DESTDIR)$(PREFIX)/include/lockstep/
	install -m 644 $(BUILD)/lockstep.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/
	tools/install-pages $(BUILD)/$(NAME) $(DESTDIR)$(PREFIX)/share
.PHONY: install

# ---- image: what a cluster runs, as an OCI archive with its bill of materials; no Docker needed ----
$(BUILD)/image/lockstep.tar: $(BUILD)/$(NAME) tools/image
	@tools/image $(BUILD)/$(NAME) $(VERSION) $(BUILD)/image
image: $(BUILD)/image/lockstep.tar
	@cat $(BUILD)/image/sizes.txt
check-image: $(BUILD)/$(NAME)
	@tests/image/run
.PHONY: image check-image

# ---- tidy ----
C_FILES := $(wildcard src/*/*.[ch] src/*/*/*.[ch] include/lockstep/*.h tests/*/*.[ch] \
             tests/*/*/*.[ch] bench/*.[ch] examples/*.c fuzz/*.[ch])
format:
	clang-format -i $(C_FILES)
lint:
	@tools/check-layers src
	clang-tidy --quiet $(SOURCES) $(CLI) src/cli/main.c -- $(CPPFLAGS) $(MPI_CFLAGS) -std=c17 -fopenmp
.PHONY: format lint

# ---- test: everything that ./test promises ----
test: all
	@tools/test-all
fresh:
	@tools/fresh
.PHONY: test fresh

clean:
	rm -rf build
.PHONY: all check golden clean lists FORCE
.SECONDARY:
-include $(shell find $(BUILD) build/fuzz -name '*.d' 2>/dev/null)
