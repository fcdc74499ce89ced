/* The status page: the server sends all its counters twice a second; this page keeps the last two
 * minutes, and draws rates, latencies and batches from their differences. */
"use strict";

(() => {
    const { $, grouped, number, bytes, seconds, secondsText, duration, show } = Text;
    const KEPT = 240, WINDOW_SECONDS = 10;
    const samples = []; /* oldest first: {at, counts by model name, data} */
    const cards = new Map();

    /* --- numbers ------------------------------------------------------------------------- */

    const rate = (v) => v > 0 ? number(v) : "0";
    const sum = (list) => list.reduce((all, one) => all + one, 0);
    const add = (a, b) => a.map((v, i) => v + (b[i] || 0));
    const minus = (a, b) => a.map((v, i) => Math.max(0, v - (b ? b[i] || 0 : 0)));

    /* One model's counters, all versions together. */
    function gather(model) {
        const total = { requests: 0, ok: 0, rows: 0, executions: 0, pending: 0,
            latency: model.latency, batches: new Array(13).fill(0) };
        for (const [status, count] of Object.entries(model.statuses)) {
            total.requests += count;
            if (status === "OK") total.ok += count;
        }
        for (const version of model.versions) {
            total.rows += version.rows;
            total.executions += version.executions;
            total.pending += version.pending;
            total.batches = add(total.batches, version.batches);
        }
        return total;
    }

    function difference(now, before) {
        if (!before) return { ...now, requests: 0, ok: 0, rows: 0, executions: 0,
            latency: now.latency.map(() => 0), batches: now.batches.map(() => 0) };
        return { ...now, requests: now.requests - before.requests, ok: now.ok - before.ok,
            rows: now.rows - before.rows, executions: now.executions - before.executions,
            latency: minus(now.latency, before.latency), batches: minus(now.batches, before.batches) };
    }

    /* The newest sample that is at least so old, or the oldest there is. */
    function sampleBefore(age) {
        const now = samples[samples.length - 1].at;
        let found = samples[0];
        for (const sample of samples) if (now - sample.at >= age) found = sample;
        return found;
    }

    /* Seconds below which this part of the requests stayed, read off the histogram. */
    function quantile(counts, limits, part) {
        const total = sum(counts);
        if (!total) return null;
        let left = part * total;
        for (let i = 0; i < counts.length; i++) {
            if (left <= counts[i]) {
                const low = i ? limits[i - 1] : 0, high = i < limits.length ? limits[i] : limits[i - 1] * 1.8;
                return (low + (high - low) * (counts[i] ? left / counts[i] : 0)) / 1e6;
            }
            left -= counts[i];
        }
        return limits[limits.length - 1] / 1e6;
    }

    /* --- drawing ------------------------------------------------------------------------- */

    const SVG = "http://www.w3.org/2000/svg";
    function svg(name, attributes, parent) {
        const element = document.createElementNS(SVG, name);
        for (const key in attributes) element.setAttribute(key, attributes[key]);
        if (parent) parent.append(element);
        return element;
    }
    function html(name, className, text, parent) {
        const element = document.createElement(name);
        if (className) element.className = className;
        if (text !== undefined) element.textContent = text;
        if (parent) parent.append(element);
        return element;
    }

    function bars(area, counts, kind, titles) {
        const most = Math.max(1, ...counts), step = 100 / counts.length;
        area.replaceChildren();
        counts.forEach((count, i) => {
            if (!count) return;
            const height = Math.max(2, 96 * count / most);
            const bar = svg("rect", { class: `bar ${kind}`, x: i * step + step * 0.12, width: step * 0.76,
                y: 100 - height, height, rx: 0.8 }, area);
            svg("title", {}, bar).textContent = `${titles[i]}: ${grouped(count)}`;
        });
        svg("line", { class: "base", x1: 0, x2: 100, y1: 100, y2: 100 }, area);
    }

    function curve(area, points) {
        const most = Math.max(1e-9, ...points);
        const place = (v, i) => `${(100 * i / Math.max(1, points.length - 1)).toFixed(2)},${(100 - 94 * v / most).toFixed(2)}`;
        const line = points.map(place).join(" ");
        area.replaceChildren();
        if (points.length > 1) {
            svg("polygon", { class: "area", points: `0,100 ${line} 100,100` }, area);
            svg("polyline", { class: "curve", points: line }, area);
        }
        svg("line", { class: "base", x1: 0, x2: 100, y1: 100, y2: 100 }, area);
        return most;
    }

    function pane(parent, title, kind) {
        const box = html("div", "pane", undefined, parent);
        html("h3", "", title, box);
        const area = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img",
            "aria-label": title }, box);
        const axis = html("p", "axis", undefined, box);
        const ends = [html("span", "", "", axis), html("span", "", "", axis), html("span", "", "", axis)];
        return { area, ends, kind };
    }

    function makeCard(name) {
        const root = html("article", "model", undefined, $("models"));
        root.dataset.model = name;
        const head = html("div", "head", undefined, root);
        html("h2", "", name, head);
        const path = html("span", "path quiet", "", head), now = html("span", "now", "", head);
        const panes = html("div", "panes", undefined, root);
        const card = { root, path, now, rate: pane(panes, "Requests per second, last two minutes"),
            latency: pane(panes, "Latency of requests"), batches: pane(panes, "Rows computed together") };
        const scroll = html("div", "scroll", undefined, root);
        card.table = html("table", "versions", undefined, scroll);
        const row = html("tr", "", undefined, html("thead", "", undefined, card.table));
        for (const [text, kind] of [["Version", ""], ["State", ""], ["Requests", "number"], ["Rows", "number"],
            ["Per batch", "number"], ["Computing", "number"], ["Queue", "number"], ["Loaded in", "number"]])
            html("th", kind, text, row);
        card.body = html("tbody", "", undefined, card.table);
        cards.set(name, card);
        return card;
    }

    function versionRow(body, status, counts) {
        const row = html("tr", "", undefined, body), failed = status.state === "END" && status.message;
        row.dataset.version = status.version;
        const first = html("td", "", String(status.version), row);
        for (const label of status.labels.split(" ").filter(Boolean)) html("span", "chip label", label, first);
        const cell = html("td", "", undefined, row);
        html("span", "chip", failed ? "not served" : status.state.toLowerCase(), cell).dataset.state =
            failed ? "failed" : status.state;
        if (failed) html("div", "why", status.message, cell);
        const per = (us) => counts && counts.executions ? secondsText(us / 1e6 / counts.executions) : "–";
        const texts = counts ? [grouped(counts.requests), grouped(counts.rows),
            counts.executions ? number(counts.rows / counts.executions) : "–", per(counts.run_us),
            counts.requests ? secondsText(counts.queue_us / 1e6 / counts.requests) : "–"] : ["–", "–", "–", "–", "–"];
        texts.push(status.loaded_seconds ? secondsText(status.loaded_seconds) : "–");
        for (const text of texts) html("td", "number", text, row);
    }

    const batchTitles = Array.from({ length: 13 }, (_, i) =>
        i === 0 ? "1 row" : i === 12 ? "more rows" : `up to ${1 << i} rows`);

    function drawCard(data, model, limits) {
        const card = cards.get(model.name) || makeCard(model.name);
        const counts = data.counts.find((one) => one.name === model.name);
        if (card.path.textContent !== model.base_path) card.path.textContent = model.base_path;
        card.body.replaceChildren();
        for (const version of model.versions)
            versionRow(card.body, version, counts && counts.versions.find((one) => one.version === version.version));
        if (!counts) return;
        const points = [];
        for (let i = 1; i < samples.length; i++) {
            const a = samples[i - 1], b = samples[i], gap = b.at - a.at;
            const before = a.totals.get(model.name), now = b.totals.get(model.name);
            points.push(before && now && gap > 0 ? Math.max(0, now.requests - before.requests) / gap : 0);
        }
        const most = curve(card.rate.area, points);
        card.rate.ends[0].textContent = samples.length > 1 ? `${Math.round(samples[samples.length - 1].at - samples[0].at)} s ago` : "";
        card.rate.ends[1].textContent = most > 1e-6 ? `at most ${number(most)}/s` : "";
        card.rate.ends[2].textContent = "now";
        card.now.textContent = `${rate(points.length ? points[points.length - 1] : 0)} /s`;
        drawHistograms(card, gather(counts), limits);
    }

    /* Only the buckets between the first and the last that hold something. */
    function drawHistograms(card, total, limits) {
        const used = total.latency.map((count, i) => count ? i : -1).filter((i) => i >= 0);
        const first = used.length ? Math.max(0, used[0] - 1) : 0, last = used.length ? used[used.length - 1] + 1 : 8;
        const titles = total.latency.map((_, i) =>
            i < limits.length ? `up to ${secondsText(limits[i] / 1e6)}` : "longer");
        bars(card.latency.area, total.latency.slice(first, last + 1), "", titles.slice(first, last + 1));
        card.latency.ends[0].textContent = first ? secondsText(limits[first - 1] / 1e6) : "0";
        card.latency.ends[1].textContent = used.length ? `median ${secondsText(quantile(total.latency, limits, 0.5))}` : "";
        card.latency.ends[2].textContent = secondsText(limits[Math.min(last, limits.length - 1)] / 1e6);
        bars(card.batches.area, total.batches, "batch", batchTitles);
        card.batches.ends[0].textContent = "1";
        card.batches.ends[1].textContent = total.executions ? `mean ${number(total.rows / total.executions)}` : "";
        card.batches.ends[2].textContent = "2048+";
    }

    /* --- all together -------------------------------------------------------------------- */

    function together(totals) {
        const all = { requests: 0, ok: 0, rows: 0, executions: 0, pending: 0, latency: [], batches: [] };
        for (const one of totals.values()) {
            for (const key of ["requests", "ok", "rows", "executions", "pending"]) all[key] += one[key];
            all.latency = all.latency.length ? add(all.latency, one.latency) : one.latency;
            all.batches = all.batches.length ? add(all.batches, one.batches) : one.batches;
        }
        return all;
    }

    function drawTiles(data) {
        const now = samples[samples.length - 1], before = sampleBefore(WINDOW_SECONDS);
        const gap = now.at - before.at, all = together(now.totals);
        const recent = difference(all, together(before.totals));
        const per = (count) => gap > 0 ? count / gap : 0, limits = data.latency_limits_us;
        const set = (id, value, pair) => show(id, pair[0], value, pair[1] && ` ${pair[1]}`);
        show("rate", rate(per(recent.requests)), per(recent.requests));
        show("rows", rate(per(recent.rows)), per(recent.rows));
        const p50 = quantile(recent.latency, limits, 0.5), p99 = quantile(recent.latency, limits, 0.99);
        set("p50", p50, seconds(p50));
        set("p99", p99, seconds(p99));
        show("batch", recent.executions ? number(recent.rows / recent.executions) : "–",
            recent.executions ? recent.rows / recent.executions : null);
        show("pending", grouped(data.pending), data.pending);
        show("failures", rate(per(recent.requests - recent.ok)), per(recent.requests - recent.ok));
        show("failures-note", `per second; ${grouped(all.requests - all.ok)} in all`, all.requests - all.ok);
        set("memory", data.memory_bytes, bytes(data.memory_bytes));
        show("uptime", `up ${duration(data.uptime)}`, data.uptime);
    }

    function setState(state, text) {
        $("state").dataset.state = state;
        show("state-text", text);
    }

    function draw(data) {
        const totals = new Map(data.counts.map((model) => [model.name, gather(model)]));
        if (samples.length && data.uptime < samples[samples.length - 1].at) samples.length = 0; /* another server */
        samples.push({ at: data.uptime, totals });
        if (samples.length > KEPT) samples.shift();
        drawTiles(data);
        const names = new Set(data.models.map((model) => model.name));
        for (const [name, card] of cards) if (!names.has(name)) { card.root.remove(); cards.delete(name); }
        for (const model of data.models) drawCard(data, model, data.latency_limits_us);
        $("none").hidden = data.models.length > 0;
        const served = data.models.filter((model) => model.versions.some((one) => one.state === "AVAILABLE")).length;
        show("about", `version ${data.version}, ${served} of ${data.models.length} model${data.models.length === 1 ? "" : "s"} answer`);
        document.title = `${rate(+$("rate").dataset.value)}/s – lockstep serve`;
        setState(data.ready ? "running" : "starting", data.ready ? "ready" : "not ready");
    }

    /* --- the connection, and the colours -------------------------------------------------- */

    function listen() {
        const source = new EventSource("events");
        source.addEventListener("status", (event) => draw(JSON.parse(event.data)));
        source.onerror = () => setState("failed", "no connection");
    }

    const themes = ["", "light", "dark"];
    function setTheme(theme) {
        if (theme) document.documentElement.dataset.theme = theme;
        else delete document.documentElement.dataset.theme;
        try { localStorage.setItem("lockstep-theme", theme); } catch { /* private windows have none */ }
    }
    const nextTheme = () => setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme || "") + 1) % 3]);
    try { setTheme(localStorage.getItem("lockstep-theme") || ""); } catch { /* as above */ }
    $("theme").addEventListener("click", nextTheme);
    document.addEventListener("keydown", (event) => { if (event.key === "t" && !event.ctrlKey && !event.metaKey) nextTheme(); });

    fetch("data").then((reply) => reply.json()).then(draw).catch(() => setState("failed", "no connection")).finally(listen);
})();
