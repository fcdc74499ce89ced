/* The table of operations: sorted, filtered, summed up. */
"use strict";

const Layers = (() => {
    const { $, finite, number, bytesText, secondsText, show, make } = Text;
    let layers = [], times = []; /* seconds of one step, in the same order */

    const table = { key: "seconds", down: true, all: false, filter: "", by: "" };
    const FIRST_ROWS = 12;

    /* Rows with the same layer, or operation, as one. What they do not have in common is counted. */
    function sumUp(rows, by) {
        const groups = new Map();
        for (const row of rows) {
            const key = row[by], sum = groups.get(key);
            if (!sum) {
                groups.set(key, { ...row, count: 1 });
                continue;
            }
            sum.count++;
            for (const name of ["node", "op", "pass", "kernel"]) if (sum[name] !== row[name]) sum[name] = "";
            for (const name of ["flops", "bytes"]) sum[name] += row[name];
            if (row.seconds !== null) sum.seconds = (sum.seconds || 0) + row.seconds;
        }
        for (const sum of groups.values())
            if (sum.count > 1 && !sum.pass) sum.pass = `${sum.count} parts`;
        return [...groups.values()];
    }

    function layerRows() {
        const total = times.reduce((a, b) => a + (b || 0), 0);
        let rows = layers.map((layer, i) =>
            ({ ...layer, order: i + 1, seconds: finite(times[i]) ? times[i] : null }));
        const wanted = table.filter.toLowerCase();
        if (wanted) rows = rows.filter((r) => `${r.node} ${r.op} ${r.pass} ${r.kernel}`.toLowerCase().includes(wanted));
        if (table.by) rows = sumUp(rows, table.by);
        for (const row of rows) {
            row.share = total && row.seconds !== null ? row.seconds / total : null;
            row.speed = row.flops > 0 && row.seconds > 0 ? row.flops / row.seconds / 1e9 : null;
        }
        /* As long as nothing is measured, in the order of the plan. */
        const unmeasured = !total && (table.key === "seconds" || table.key === "share");
        const key = unmeasured ? "order" : table.key, sign = table.down && !unmeasured ? -1 : 1;
        rows.sort((a, b) => {
            const [x, y] = [a[key], b[key]];
            const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : (x ?? -1) - (y ?? -1);
            return sign * order || a.order - b.order;
        });
        return [rows, total];
    }

    function layerRow(row, most) {
        const line = make("tr"), meter = make("div", undefined, "meter"), track = make("div"), bar = make("span");
        line.dataset.pass = row.pass;
        bar.style.width = `${most ? 100 * (row.share || 0) / most : 0}%`;
        track.append(bar);
        meter.append(track, make("b", row.share === null ? "" : `${(row.share * 100).toFixed(1)} %`));
        const share = make("td", undefined, "number");
        share.append(meter);
        line.append(make("td", String(row.order), "quiet order"), make("td", row.node, "name"),
            make("td", row.op, "op"), make("td", row.pass, "quiet"), make("td", row.kernel, "mono"),
            make("td", row.seconds === null ? "" : secondsText(row.seconds), "number"), share,
            make("td", row.speed === null ? "" : number(row.speed), "number flops"),
            make("td", bytesText(row.bytes), "number quiet moves"));
        return line;
    }

    function draw() {
        const [rows, sum] = layerRows();
        const most = Math.max(0, ...rows.map((r) => r.share || 0));
        const shown = table.all || table.filter ? rows : rows.slice(0, FIRST_ROWS);
        $("layers").hidden = !layers.length;
        $("layer-rows").replaceChildren(...shown.map((row) => layerRow(row, most)));
        show("layers-sum", sum ? `${secondsText(sum)} in ${layers.length} operations, mean of a step` : `${layers.length} operations`, sum);
        const button = $("all-layers");
        button.hidden = Boolean(table.filter) || rows.length <= FIRST_ROWS;
        button.textContent = table.all ? `Show the first ${FIRST_ROWS}` : `Show all ${rows.length}`;
        for (const head of document.querySelectorAll("th[data-key]"))
            if (head.dataset.key === table.key) head.setAttribute("aria-sort", table.down ? "descending" : "ascending");
            else head.removeAttribute("aria-sort");
    }

    function groupBy(by) {
        table.by = by;
        for (const button of $("grouping").children)
            button.setAttribute("aria-pressed", String(button.dataset.by === by));
        draw();
    }

    function sortBy(key) {
        if (table.key === key) table.down = !table.down;
        else Object.assign(table, { key, down: ["seconds", "share", "speed", "bytes"].includes(key) });
        draw();
    }

    function filter(text) {
        table.filter = text;
        draw();
    }

    function update(allLayers, allTimes) {
        layers = allLayers;
        times = allTimes;
        /* Not under the hands of somebody who is selecting in it. */
        if (!$("layer-rows").contains(document.activeElement)) draw();
    }

    $("filter").addEventListener("input", (event) => filter(event.target.value));
    $("filter").addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        event.target.value = "";
        event.target.blur();
        filter("");
    });
    $("all-layers").addEventListener("click", () => { table.all = !table.all; draw(); });
    for (const button of $("grouping").children) button.addEventListener("click", () => groupBy(button.dataset.by));
    for (const head of document.querySelectorAll("th[data-key]"))
        head.querySelector("button").addEventListener("click", () => sortBy(head.dataset.key));

    return { update, groupNext: () => groupBy({ "": "node", node: "op", op: "" }[table.by]) };
})();
