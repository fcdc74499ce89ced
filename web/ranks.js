/* The ranks of a training: a bar for each, with the parts of its step, and who holds the others up. */
"use strict";

const Ranks = (() => {
    const { $, finite, bytesText, secondsText, show, make } = Text;
    /* Of a row: rank, steps in which it was the slowest, then seconds of a step in this order. */
    const PARTS = [["input", "amber"], ["forward", "blue"], ["backward", "green"], ["waiting for others", "pink"]];
    const OWN = 3, HIDDEN = 6, FIRST_ROWS = 16;
    let run = {}, status = {}, rows = [], all = false;

    const part = (row, i) => row[2 + i] || 0;
    const sum = (row, count) => PARTS.slice(0, count).reduce((total, _, i) => total + part(row, i), 0);
    const own = (row) => sum(row, OWN);
    const host = (rank) => run.hosts[rank] || "";

    function median(values) {
        const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
        return n ? (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2 : 0;
    }

    function bars(row, most) {
        const box = make("div", undefined, "rank-bars"), bar = make("div", undefined, "stack"), beside = make("div", undefined, "beside");
        const width = (v) => `${most ? 100 * v / most : 0}%`;
        PARTS.forEach(([name, color], i) => {
            if (!part(row, i)) return;
            const piece = make("div");
            piece.style.background = `var(--${color})`;
            piece.style.width = width(part(row, i));
            piece.title = `${name}: ${secondsText(part(row, i))}`;
            bar.append(piece);
        });
        /* It ends about where the last gradient was there. */
        const hidden = Math.min(row[HIDDEN] || 0, own(row));
        beside.style.marginLeft = width(own(row) - hidden);
        beside.style.width = width(hidden);
        beside.title = `reducing meanwhile: ${secondsText(row[HIDDEN])}`;
        box.append(bar, beside);
        return box;
    }

    function line(row, most, slowest, steps) {
        const item = make("li"), name = make("div", undefined, "rank-name");
        name.append(make("b", `rank ${row[0]}`), make("span", host(row[0]), "quiet"));
        if (row === slowest) {
            item.className = "slowest";
            name.append(make("em", "slowest"));
        }
        const numbers = make("div", undefined, "rank-numbers quiet");
        numbers.append(make("b", secondsText(own(row))), ` + ${secondsText(part(row, OWN))} waiting`);
        numbers.title = `the slowest in ${row[1]} of ${steps} steps; ${secondsText(row[HIDDEN])} of reductions were hidden`;
        item.append(name, bars(row, most), numbers);
        return item;
    }

    function buckets(size) {
        if (!finite(size)) return "";
        if (size <= 1) return size ? " · a bucket for each tensor" : " · one bucket";
        return ` · buckets of ${bytesText(size)}`;
    }

    function draw() {
        const several = run.ranks > 1;
        $("ranks").hidden = !several;
        if (!several) return;
        const bySpeed = [...rows].sort((a, b) => own(b) - own(a)), slowest = bySpeed[0];
        const most = rows.reduce((top, row) => Math.max(top, sum(row, PARTS.length)), 0);
        const steps = rows.reduce((total, row) => total + row[1], 0);
        const many = rows.length > 2 * FIRST_ROWS || run.ranks > rows.length && rows.length > 0;
        const shown = !many ? rows : all ? bySpeed : bySpeed.slice(0, FIRST_ROWS);
        $("rank-rows").replaceChildren(...shown.map((row) => line(row, most, slowest, steps)));
        const hosts = new Set(run.hosts).size;
        show("ranks-sum", `${run.ranks} on ${hosts} ${hosts === 1 ? "host" : "hosts"}${buckets(status.bucket)}`, run.ranks);
        if (slowest) {
            /* Of very many only the slowest are here, whose middle says nothing. */
            const middle = run.ranks > rows.length ? 0 : median(rows.map(own));
            const excess = middle ? `, ${Math.round(100 * (own(slowest) / middle - 1))} % above the median` : "";
            const often = steps ? `, the slowest in ${Math.round(100 * slowest[1] / steps)} % of all steps` : "";
            show("ranks-slowest", `slowest now: rank ${slowest[0]} on ${host(slowest[0])}${excess}${often}`, slowest[0]);
        } else show("ranks-slowest", "");
        const button = $("all-ranks");
        button.hidden = !many;
        button.textContent = all ? `Show the slowest ${FIRST_ROWS}` : `Show ${run.ranks > rows.length ? `the slowest ${rows.length}` : `all ${rows.length}`}`;
    }

    $("all-ranks").addEventListener("click", () => { all = !all; draw(); });

    return {
        update(newRun, newStatus, newRows) {
            run = newRun;
            status = newStatus;
            rows = newRows;
            draw();
        },
    };
})();
