/* The page: takes the record of a run (from the file it is saved in, or from the server, then kept
 * up to date by events) and shows it. */
"use strict";

(() => {
    const { $, finite, number, grouped, percent, axisNumber, bytes, bytesText, seconds, secondsText, duration, show, make } = Text;
    const { Group, Chart, nearest } = Charts;

    /* --- what is known of the run ------------------------------------------------------------- */

    const COLUMNS = ["step", "at", "speed", "loss", "low", "high", "accuracy", "rate", "resident",
        "input", "forward", "backward", "reduce", "hidden", "update"];
    const PARTS = [["input", "amber"], ["forward", "blue"], ["backward", "green"], ["reduce", "pink"], ["update", "orange"]];
    const data = { version: -1, generation: 0, run: {}, status: {}, points: {}, stride: 1, evaluations: [],
        log: [], layers: [], layerSeconds: [], ranks: [], memory: [], settings: [] };
    for (const key of COLUMNS) data.points[key] = [];

    function takePoints(points) {
        for (const key of COLUMNS) {
            data.points[key].length = points.from;
            for (const value of points[key]) data.points[key].push(value);
        }
        data.stride = points.stride;
    }
    const LOG_LINES = 300;
    /* Lines have numbers, so that one that comes twice is shown once. */
    function takeLog(log) {
        data.log.length = Math.max(0, Math.min(data.log.length, log.from - data.logFirst));
        if (data.log.length === 0) data.logFirst = log.from;
        data.log.push(...log.lines);
        const surplus = Math.max(0, data.log.length - LOG_LINES);
        data.log.splice(0, surplus);
        data.logFirst += surplus;
    }
    function takeSnapshot(snapshot) {
        if (snapshot.run.started !== data.run.started) group.range = group.cursor = null; /* another run */
        Object.assign(data, { version: snapshot.version, generation: snapshot.generation, run: snapshot.run,
            status: snapshot.status, evaluations: snapshot.evaluations.items, layers: snapshot.layers,
            layerSeconds: snapshot.layer_seconds, ranks: snapshot.ranks, memory: snapshot.memory, settings: snapshot.settings,
            log: snapshot.log.lines, logFirst: snapshot.log.from });
        takePoints(snapshot.points);
        showFacts();
        showAll(true);
    }
    /* False: it does not fit what is here, a new snapshot is needed. */
    function takeDelta(delta) {
        if (delta.version <= data.version) return true;
        if (delta.generation !== data.generation || !delta.points ||
            delta.points.from > data.points.step.length || delta.evaluations.from > data.evaluations.length)
            return false;
        data.version = delta.version;
        data.status = delta.status;
        takePoints(delta.points);
        data.evaluations.length = delta.evaluations.from;
        data.evaluations.push(...delta.evaluations.items);
        const logged = delta.log.lines.length > 0;
        if (logged) takeLog(delta.log);
        if (delta.layer_seconds) data.layerSeconds = delta.layer_seconds;
        if (delta.ranks) data.ranks = delta.ranks;
        showAll(logged, Boolean(delta.layer_seconds), Boolean(delta.ranks));
        return true;
    }

    /* --- charts ------------------------------------------------------------------------------- */

    const group = new Group();
    const view = { smoothing: 0.8, byTime: false };
    const point = (key, index) => data.points[key][index];
    const newestEvaluation = (index) => {
        const step = point("step", index);
        let found = null;
        for (const evaluation of data.evaluations) if (evaluation.step <= step) found = evaluation;
        return group.cursor === null ? data.evaluations.at(-1) || null : found;
    };
    const where = (index) => group.cursor === null ? []
        : [["", "step", `${grouped(point("step", index))} · ${duration(point("at", index))}`]];

    const lossChart = new Chart(group, $("loss-card"), "Loss", {
        series: [
            { kind: "band", low: "low", high: "high", color: "blue" },
            { key: "loss", kind: "faint", color: "blue" },
            { key: "smooth", kind: "line", color: "blue" },
            { kind: "point", color: "orange" },
        ],
        formatY: axisNumber,
        legend: (i) => {
            const evaluation = newestEvaluation(i);
            return [...where(i), ["blue", "training", number(lossChart.data.smooth[i])],
                ...(evaluation ? [["orange", "evaluation", number(evaluation.loss), true]] : [])];
        },
    });
    const accuracyChart = new Chart(group, $("accuracy-card"), "Accuracy", {
        series: [
            { key: "accuracy", kind: "faint", color: "blue" },
            { key: "smooth", kind: "line", color: "blue" },
            { kind: "point", color: "orange" },
        ],
        top: 1,
        formatY: (v) => `${+(v * 100).toPrecision(4)} %`,
        legend: (i) => {
            const evaluation = newestEvaluation(i);
            return [...where(i), ["blue", "training", percent(accuracyChart.data.smooth[i])],
                ...(evaluation ? [["orange", "evaluation", percent(evaluation.accuracy), true]] : [])];
        },
    });
    const partsChart = new Chart(group, $("parts-card"), "Time of a step", {
        series: PARTS.map(([key, color]) => ({ key, kind: "area", color })),
        zero: true,
        skipFirst: true,
        formatY: (v) => v === 0 ? "0" : v < 1e-3 ? `${+(v * 1e6).toPrecision(4)} µs` : v < 1 ? `${+(v * 1e3).toPrecision(4)} ms` : `${+v.toPrecision(4)} s`,
        unit: (top) => top < 1e-3 ? 1e-6 : top < 1 ? 1e-3 : 1,
        legend: (i) => PARTS.map(([key, color]) => [color, key, partsChart.data[key][i]]).filter(([, , v]) => v > 0)
            .map(([color, key, v]) => [color, key, secondsText(v)]),
    });
    const REDUCTIONS = [["reduce", "exposed", "pink"], ["hidden", "hidden", "sky"]];
    const reduceChart = new Chart(group, $("reduce-card"), "Reductions in a step", {
        series: REDUCTIONS.map(([key, , color]) => ({ key, kind: "area", color })),
        zero: true,
        skipFirst: true,
        formatY: partsChart.formatY,
        unit: partsChart.unit,
        legend: (i) => {
            const [exposed, hidden] = REDUCTIONS.map(([key]) => reduceChart.data[key][i] || 0);
            return [["pink", "exposed", secondsText(exposed)], ["sky", "hidden", secondsText(hidden)],
                ...(exposed + hidden > 0 ? [["", "part hidden", `${Math.round(100 * hidden / (exposed + hidden))} %`]] : [])];
        },
    });
    const speedChart = new Chart(group, $("speed-card"), "Throughput", {
        series: [{ key: "speed", kind: "faint", color: "green" }, { key: "smooth", kind: "line", color: "green" }],
        zero: true,
        formatY: axisNumber,
        legend: (i) => [["green", "examples/s", number(speedChart.data.smooth[i])]],
    });
    const rateChart = new Chart(group, $("rate-card"), "Learning rate", {
        series: [{ key: "rate", kind: "line", color: "pink" }],
        zero: true,
        formatY: axisNumber,
        legend: (i) => [["pink", "rate", number(point("rate", i))]],
    });
    const memoryChart = new Chart(group, $("memory-card"), "Resident memory", {
        series: [{ key: "resident", kind: "line", color: "sky" }],
        zero: true,
        unit: (top) => 1024 ** Math.max(0, Math.floor(Math.log2(top / 4) / 10)),
        formatY: (v) => v === 0 ? "0" : bytesText(v).replace(/\.0+ /, " "),
        legend: (i) => [["sky", "resident", bytesText(point("resident", i))]],
    });

    /* An exponential mean, in terms of what each value is worth; the start is not dragged to 0. */
    function smooth(column, factor) {
        let mean = 0, weight = 0;
        return column.map((v) => {
            if (!finite(v)) return weight ? mean / weight : null;
            mean = mean * factor + v * (1 - factor);
            weight = weight * factor + (1 - factor);
            return mean / weight;
        });
    }

    function showCharts() {
        const { points } = data;
        const keep = group.cursor !== null ? points.step[group.cursor] : null;
        group.isTime = view.byTime;
        group.x = view.byTime ? points.at : points.step;
        group.formatX = view.byTime ? duration : axisNumber;
        if (keep !== null && group.cursor >= group.x.length) group.cursor = nearest(points.step, keep);
        lossChart.data = { ...points, smooth: smooth(points.loss, view.smoothing) };
        accuracyChart.data = { ...points, smooth: smooth(points.accuracy, view.smoothing) };
        speedChart.data = { ...points, smooth: smooth(points.speed, Math.max(0.5, view.smoothing)) };
        rateChart.data = memoryChart.data = points;
        partsChart.data = {};
        for (const key of [...PARTS.map(([name]) => name), "hidden"]) /* the first step, which pays for warming up, on its own */
            partsChart.data[key] = [...points[key].slice(0, 1), ...smooth(points[key].slice(1), view.smoothing)];
        reduceChart.data = partsChart.data;
        const mark = (key) => data.evaluations.map((e) => ({ x: view.byTime ? e.at : e.step, y: e[key] }));
        lossChart.marks = mark("loss");
        accuracyChart.marks = mark("accuracy");
        const classifies = points.accuracy.some(finite) || data.evaluations.some((e) => finite(e.accuracy));
        $("accuracy-card").hidden = $("accuracy-tile").hidden = points.step.length > 0 && !classifies;
        group.draw();
    }

    /* --- the top of the page ------------------------------------------------------------------ */

    const STATES = { starting: "starting", running: "running", finished: "finished", stopped: "stopped", failed: "failed" };
    const connection = { live: false, ended: false, saved: false };

    function showState() {
        const { state, message } = data.status;
        let text = STATES[state] || "connecting", shown = state || "starting", notice = "", calm = true;
        if (state === "failed") { notice = message; calm = false; }
        if (state && !connection.saved && !connection.live && !connection.ended) {
            if (state === "running" || state === "starting") { text = "connection lost"; shown = "lost"; }
            notice = notice || "The connection is lost. What is shown is the last that came; trying again …";
        } else if (connection.ended && !notice) {
            notice = state === "running" ? "The program has ended." : "";
        }
        show("state-text", text);
        $("state").dataset.state = shown;
        document.documentElement.dataset.run = state || "";
        $("notice").hidden = !notice;
        $("notice").className = calm ? "calm" : "";
        if ($("notice").textContent !== notice) $("notice").textContent = notice;
        show("source", connection.saved ? "saved run" : connection.ended ? "the run has ended" : connection.live ? "live" : "not connected");
    }

    function showProgress() {
        const { step, total, epoch, steps_per_epoch: perEpoch, elapsed, left, state } = data.status;
        const part = total ? Math.min(1, step / total) : 0;
        show("step", grouped(step), step);
        show("total", grouped(total), total);
        $("bar").style.width = `${part * 100}%`;
        $("progress").setAttribute("aria-valuenow", String(Math.round(part * 100)));
        const epochs = perEpoch ? total / perEpoch : 0;
        show("epoch", epochs >= 1 ? ` · epoch ${Math.min(epoch + (step < total || step % perEpoch ? 1 : 0), Math.ceil(epochs))} of ${+epochs.toFixed(1)} · ${Math.floor(part * 100)} %`
            : ` · ${Math.floor(part * 100)} %`);
        show("elapsed", `${duration(elapsed)} elapsed`, elapsed);
        const running = state === "running" && finite(left);
        const end = new Date(Date.now() + left * 1000);
        show("left", running ? ` · ${duration(left)} left · ends ${end.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "", left);
        document.title = `${state === "running" ? `${Math.floor(part * 100)} %` : STATES[state] || ""} · ${data.run.model || ""} · lockstep`;
    }

    function showTiles() {
        const { status, evaluations, points } = data;
        show("loss", number(status.loss), status.loss);
        const lowest = points.low.reduce((a, b) => finite(b) && b < a ? b : a, Infinity);
        show("loss-note", finite(lowest) ? `least of a step ${number(lowest)}` : "smoothed");
        show("accuracy", finite(status.accuracy) ? (status.accuracy * 100).toFixed(2) : "–", status.accuracy, finite(status.accuracy) ? "%" : "");
        const [rate] = [status.rate];
        show("rate", number(rate), rate);
        show("rate-note", data.stride > 1 ? `a point is ${data.stride} steps` : `batch ${data.run.batch || "?"}`);
        show("speed", finite(status.examples_per_second) ? status.examples_per_second >= 1000 ? grouped(status.examples_per_second) : number(status.examples_per_second) : "–", status.examples_per_second);
        const [time, unit] = seconds(status.step_seconds);
        show("step-time", time, status.step_seconds, unit);
        const last = points.step.length - 1;
        const sum = last < 0 ? 0 : PARTS.reduce((total, [key]) => total + (points[key][last] || 0), 0);
        const share = (key) => `${Math.round(100 * (points[key][last] || 0) / sum)} %`;
        show("step-note", !sum ? "" : data.run.ranks > 1 ? `waits: ${share("input")} input, ${share("reduce")} ranks` : `${share("input")} waiting for input`);
        const [resident, residentUnit] = bytes(status.resident);
        show("resident", resident, status.resident, residentUnit);
        show("peak", `peak ${bytesText(status.peak)}`, status.peak);
        showEvaluation(evaluations.at(-1));
    }

    function showEvaluation(newest) {
        if (!newest) {
            show("eval-note", data.status.state === "running" || data.status.state === "starting" ? "none yet" : "none");
            return;
        }
        const best = data.evaluations.reduce((a, e) => finite(e.accuracy) && e.accuracy > a.accuracy ? e : a, newest);
        let note = `accuracy at step ${grouped(newest.step)}`;
        if (finite(newest.auc)) {
            show("eval-main", newest.auc.toFixed(4), newest.auc);
            note = `AUC, accuracy ${percent(newest.accuracy)}`;
        } else if (finite(newest.accuracy)) {
            show("eval-main", (newest.accuracy * 100).toFixed(2), newest.accuracy, "%");
            if (best !== newest) note = `best ${percent(best.accuracy)} at ${grouped(best.step)}`;
        } else {
            show("eval-main", number(newest.loss), newest.loss);
            note = `loss at step ${grouped(newest.step)}`;
        }
        show("eval-note", note, newest.loss);
    }

    /* --- what does not change ----------------------------------------------------------------- */

    function showFacts() {
        const { run } = data;
        show("model", run.model || "lockstep");
        show("about", `${run.command} on ${run.data} · batch ${run.batch} · ${run.threads} ${run.threads === 1 ? "thread" : "threads"}${run.ranks > 1 ? ` · ${run.ranks} ranks` : ""}`);
        show("version", `lockstep ${run.version}`);
        showMemory();
        showSettings();
    }

    function showMemory() {
        const colors = ["blue", "amber", "green", "pink", "orange", "sky"];
        const sum = data.memory.reduce((total, item) => total + item.bytes, 0);
        $("memory-classes").hidden = !sum;
        show("classes-sum", bytesText(sum), sum);
        $("classes-bar").replaceChildren(...data.memory.map((item, i) => {
            const part = make("div");
            part.style.background = `var(--${colors[i % colors.length]})`;
            part.style.flexGrow = String(item.bytes / sum);
            part.title = `${item.name}: ${bytesText(item.bytes)}`;
            return part;
        }));
        $("classes-list").replaceChildren(...data.memory.map((item, i) => {
            const entry = make("li"), mark = make("i");
            mark.style.background = `var(--${colors[i % colors.length]})`;
            entry.append(mark, item.name, make("b", bytesText(item.bytes)));
            return entry;
        }));
    }

    function showSettings() {
        const all = $("all-settings").getAttribute("aria-pressed") === "true";
        const parts = [];
        let section = null, list = null;
        for (const item of data.settings) {
            const isDefault = item.source === "default";
            if (isDefault && !all) continue;
            if (item.section !== section) {
                section = item.section;
                list = make("dl");
                if (section) parts.push(make("h3", section));
                parts.push(list);
            }
            const value = make("dd", item.value, isDefault ? "default" : "");
            if (item.source !== "command line" && !isDefault) value.append(make("small", item.source));
            list.append(make("dt", item.name === "MODEL" ? "model" : item.name), value);
        }
        $("settings-list").replaceChildren(...parts);
    }

    function showLog() {
        const box = $("log-lines"), atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
        box.replaceChildren(...data.log.map((line) => {
            const row = make("div", undefined, /^warning|\bfailed\b/.test(line) ? "warning" : "");
            const found = /^\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)Z (.*)$/.exec(line);
            if (found) row.append(make("time", found[1]), found[2]);
            else row.textContent = line;
            return row;
        }));
        if (atEnd) box.scrollTop = box.scrollHeight;
    }

    /* --- all of it ---------------------------------------------------------------------------- */

    function showAll(logged, timed = true, ranked = true) {
        showState();
        showProgress();
        showTiles();
        showCharts();
        if (logged) showLog();
        if (timed) Layers.update(data.layers, data.layerSeconds);
        if (ranked) Ranks.update(data.run, data.status, data.ranks);
    }

    /* --- live --------------------------------------------------------------------------------- */

    let retry = 1000;

    async function fetchSnapshot() {
        const reply = await fetch("data", { cache: "no-store" });
        if (!reply.ok) throw new Error(await reply.text());
        takeSnapshot(await reply.json());
    }

    function connect() {
        const source = new EventSource("events");
        let fetching = false;
        const refresh = async () => {
            if (fetching) return;
            fetching = true;
            try {
                await fetchSnapshot();
                connection.live = true;
                retry = 1000;
            } catch (problem) {
                connection.live = false;
                $("notice").textContent = problem.message;
                $("notice").hidden = false;
            }
            fetching = false;
            showState();
        };
        source.addEventListener("open", refresh);
        source.addEventListener("delta", (event) => {
            const delta = JSON.parse(event.data);
            if (data.version >= 0 && !takeDelta(delta)) refresh();
        });
        source.addEventListener("end", () => {
            connection.ended = true;
            connection.live = false;
            source.close();
            showState();
        });
        source.addEventListener("error", () => {
            connection.live = false;
            showState();
            if (source.readyState !== EventSource.CLOSED) return; /* it tries again by itself */
            setTimeout(connect, retry);
            retry = Math.min(retry * 2, 15000);
        });
    }

    /* --- hands -------------------------------------------------------------------------------- */

    const remembered = {
        get(key) { try { return localStorage.getItem(key); } catch { return null; } },
        set(key, value) { try { localStorage.setItem(key, value); } catch { /* a file may not */ } },
    };

    const THEMES = ["system", "light", "dark"];
    function setTheme(theme) {
        if (theme === "system") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = theme;
        remembered.set("lockstep-theme", theme);
        $("theme").setAttribute("aria-label", `Colours: ${theme}`);
        $("theme").dataset.theme = theme;
        group.draw();
    }
    const nextTheme = () => setTheme(THEMES[(THEMES.indexOf($("theme").dataset.theme) + 1) % THEMES.length]);

    function setAxis(byTime) {
        const step = group.cursor;
        view.byTime = byTime;
        group.range = null;
        $("by-step").setAttribute("aria-pressed", String(!byTime));
        $("by-time").setAttribute("aria-pressed", String(byTime));
        showCharts();
        group.setCursor(step);
    }
    function setLog(on) {
        lossChart.log = on;
        $("log-scale").setAttribute("aria-pressed", String(on));
        group.draw();
    }
    function setSmoothing(value) {
        view.smoothing = Math.max(0, Math.min(0.98, value));
        $("smoothing").value = String(view.smoothing);
        $("smoothing-value").textContent = view.smoothing.toFixed(2);
        showCharts();
    }
    function toggle(button) {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        return on;
    }

    const KEYS = {
        ArrowLeft: (event) => group.move(event.shiftKey ? -10 : -1),
        ArrowRight: (event) => group.move(event.shiftKey ? 10 : 1),
        Home: () => group.setCursor(0),
        End: () => group.setCursor(group.x.length - 1),
        Escape: () => group.setCursor(null),
        "+": () => group.zoomBy(0.5),
        "=": () => group.zoomBy(0.5),
        "-": () => group.zoomBy(2),
        0: () => group.zoom(null),
        x: () => setAxis(!view.byTime),
        l: () => setLog(!lossChart.log),
        "[": () => setSmoothing(view.smoothing - 0.1),
        "]": () => setSmoothing(view.smoothing + 0.1),
        t: nextTheme,
        g: () => Layers.groupNext(),
        "/": () => $("filter").focus(),
        "?": () => $("shortcuts").showModal(),
    };

    document.addEventListener("keydown", (event) => {
        const typing = event.target.matches("input, textarea, select") || $("shortcuts").open;
        if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
        if (event.target.id === "log-lines" && /^(Arrow|Home|End)/.test(event.key)) return;
        const action = KEYS[event.key];
        if (!action) return;
        event.preventDefault();
        action(event);
    });
    $("theme").addEventListener("click", nextTheme);
    $("help").addEventListener("click", () => $("shortcuts").showModal());
    $("by-step").addEventListener("click", () => setAxis(false));
    $("by-time").addEventListener("click", () => setAxis(true));
    $("log-scale").addEventListener("click", () => setLog(!lossChart.log));
    $("smoothing").addEventListener("input", (event) => setSmoothing(+event.target.value));
    $("unzoom").addEventListener("click", () => group.zoom(null));
    $("all-settings").addEventListener("click", (event) => { toggle(event.target); showSettings(); });
    group.onChange = () => { $("unzoom").hidden = !group.range; };
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => group.draw());

    const saved = remembered.get("lockstep-theme");
    setTheme(THEMES.includes(saved) ? saved : "system");
    const embedded = $("data");
    if (embedded) {
        connection.saved = true;
        takeSnapshot(JSON.parse(embedded.textContent));
    } else {
        if (location.search) history.replaceState(null, "", location.pathname); /* the token stays out of sight */
        connect();
    }
})();
