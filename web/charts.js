/* Charts on canvas that share one horizontal axis, one cursor and one zoom. They know columns of
 * numbers and nothing of training. */
"use strict";

const Charts = (() => {
    const PAD = { left: 44, right: 12, top: 8, bottom: 24 }; /* left: at least */

    const { finite } = Text;

    /* Round steps for an axis: 1, 2 or 5 times a power of ten. */
    function ticks(low, high, count) {
        const span = high - low;
        if (!(span > 0)) return [low];
        const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
        const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
        const found = [];
        for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
            found.push(+(i * step).toPrecision(12));
        return found;
    }

    function timeTicks(low, high, count) {
        const raw = (high - low) / count;
        const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
            43200, 86400].find((s) => s >= raw) || 86400 * Math.ceil(raw / 86400);
        if (raw < 1) return ticks(low, high, count);
        const found = [];
        for (let t = Math.ceil(low / step) * step; t <= high; t += step) found.push(t);
        return found;
    }

    function logTicks(low, high) {
        const found = [];
        for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
            for (const m of [1, 2, 5]) {
                const v = +(m * 10 ** e).toPrecision(6);
                if (v >= low && v <= high) found.push(v);
            }
        return found.length > 8 ? found.filter((v) => /^[01.]+$|^1e/.test(String(v))) : found;
    }

    /* Index of the value nearest to x in a column that grows. */
    function nearest(column, x) {
        let low = 0, high = column.length - 1;
        if (high < 0) return -1;
        while (high - low > 1) {
            const middle = (low + high) >> 1;
            if (column[middle] < x) low = middle; else high = middle;
        }
        return x - column[low] <= column[high] - x ? low : high;
    }

    /* What all charts have in common: the axis, what is shown of it, where the cursor is. */
    class Group {
        constructor() {
            this.charts = [];
            this.x = [];          /* of the points */
            this.isTime = false;
            this.formatX = String;
            this.range = null;    /* [first, last], or all */
            this.cursor = null;   /* an index into x */
            this.selecting = null;
            this.onChange = () => {};
            this.drawing = false;
        }
        /* Several reasons to draw within one frame are one drawing. */
        draw() {
            if (this.drawing) return;
            this.drawing = true;
            requestAnimationFrame(() => {
                this.drawing = false;
                for (const chart of this.charts) chart.draw();
            });
        }
        bounds() {
            if (this.range) return this.range;
            const n = this.x.length;
            if (!n) return [0, 1];
            const first = this.isTime ? 0 : Math.min(this.x[0], this.x[n - 1] - 1);
            return [first, Math.max(this.x[n - 1], first + 1e-9)];
        }
        setCursor(index) {
            const n = this.x.length;
            this.cursor = index === null || !n ? null : Math.max(0, Math.min(n - 1, index));
            this.draw();
            this.onChange();
        }
        move(by) {
            const [low, high] = this.bounds();
            const first = nearest(this.x, low), last = nearest(this.x, high);
            if (this.cursor === null) this.setCursor(by > 0 ? first : last);
            else this.setCursor(Math.max(first, Math.min(last, this.cursor + by)));
        }
        zoom(range) {
            if (range) {
                const n = this.x.length, all = [this.x[0], this.x[n - 1]];
                const clipped = [Math.max(range[0], this.isTime ? 0 : Math.min(all[0], range[1])),
                    Math.min(range[1], all[1])];
                const points = nearest(this.x, clipped[1]) - nearest(this.x, clipped[0]);
                range = points >= 1 && clipped[1] > clipped[0] ? clipped : this.range;
                if (range && range[0] <= all[0] && range[1] >= all[1]) range = null;
            }
            this.range = range;
            this.draw();
            this.onChange();
        }
        zoomBy(factor) {
            const [low, high] = this.bounds();
            const at = this.cursor === null ? high : this.x[this.cursor];
            if (factor > 1 && !this.range) return;
            this.zoom([at - (at - low) * factor, at + (high - at) * factor]);
        }
    }

    class Chart {
        /* series: [{key, label, color, kind}], kinds: line, faint, band (low and high), area
         * (stacked), point. values(chart, index) gives the legend's texts. */
        constructor(group, figure, title, options) {
            Object.assign(this, { group, figure, title, series: [], data: {}, zero: false, log: false,
                formatY: String, marks: [] }, options);
            group.charts.push(this);
            const caption = document.createElement("figcaption");
            const heading = document.createElement("h2");
            heading.textContent = title;
            this.values = document.createElement("div");
            this.values.className = "values";
            caption.append(heading, this.values);
            this.canvas = document.createElement("canvas");
            this.canvas.tabIndex = 0;
            this.canvas.setAttribute("role", "img");
            this.left = PAD.left;
            const place = document.createElement("div");
            place.className = "plot";
            place.append(this.canvas);
            figure.append(caption, place);
            this.listen();
            new ResizeObserver(() => group.draw()).observe(this.canvas);
        }

        listen() {
            const { canvas, group } = this;
            const at = (event) => {
                const box = canvas.getBoundingClientRect();
                const [low, high] = group.bounds();
                const part = (event.clientX - box.left - this.left) /
                    Math.max(1, box.width - this.left - PAD.right);
                return low + Math.max(0, Math.min(1, part)) * (high - low);
            };
            canvas.addEventListener("pointermove", (event) => {
                const x = at(event);
                if (group.selecting) group.selecting.to = x;
                group.setCursor(nearest(group.x, x));
            });
            canvas.addEventListener("pointerdown", (event) => {
                if (event.pointerType === "touch") group.setCursor(nearest(group.x, at(event)));
                else if (event.button === 0) {
                    group.selecting = { from: at(event), to: at(event) };
                    canvas.setPointerCapture(event.pointerId);
                }
            });
            canvas.addEventListener("pointerup", () => {
                const selected = group.selecting;
                group.selecting = null;
                if (!selected) return;
                const [low, high] = group.bounds();
                const range = [selected.from, selected.to].sort((a, b) => a - b);
                if (range[1] - range[0] > (high - low) / 100) group.zoom(range);
                else group.draw();
            });
            canvas.addEventListener("pointerleave", () => {
                if (!group.selecting && document.activeElement !== canvas) group.setCursor(null);
            });
            canvas.addEventListener("dblclick", () => group.zoom(null));
            canvas.addEventListener("blur", () => group.setCursor(null));
        }

        color(name) {
            return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
        }

        /* First and last index that is seen, with one more on each side so that lines go on. */
        visible() {
            const { x } = this.group, [low, high] = this.group.bounds();
            if (!x.length) return [0, -1];
            return [Math.max(0, nearest(x, low) - 1), Math.min(x.length - 1, nearest(x, high) + 1)];
        }

        limits(first, last) {
            let low = Infinity, high = -Infinity;
            const see = (v) => {
                if (!finite(v) || (this.log && v <= 0)) return;
                if (v < low) low = v;
                if (v > high) high = v;
            };
            const areas = this.series.filter((s) => s.kind === "area");
            /* The first step pays for warming up; it may stick out. */
            const from0 = this.skipFirst && first === 0 && last > 10 ? 1 : first;
            for (let i = from0; i <= last; i++) {
                let sum = 0;
                for (const s of this.series) {
                    const column = this.data[s.key];
                    if (s.kind === "area") sum += (column && column[i]) || 0;
                    else if (s.kind !== "band" && s.kind !== "point" && column) see(column[i]);
                }
                if (areas.length) see(sum);
            }
            const [from, to] = this.group.bounds();
            for (const mark of this.marks)
                if (mark.x >= from && mark.x <= to) see(mark.y);
            if (!(high >= low)) return this.log ? [0.1, 1] : [0, 1];
            if (this.zero) low = Math.min(0, low);
            if (this.top !== undefined) high = Math.min(Math.max(high, low), this.top);
            if (high === low) {
                const margin = Math.abs(high) * 0.1 || 1;
                return this.zero ? [0, high + margin] : [low - margin, high + margin];
            }
            if (this.log) return [low / 1.15, high * 1.15];
            const margin = (high - low) * 0.06;
            const ceiling = high + margin;
            return [this.zero && low >= 0 ? 0 : low >= 0 ? Math.max(0, low - margin) : low - margin,
                this.top !== undefined ? Math.min(ceiling, this.top) : ceiling];
        }

        draw() {
            const { canvas, group } = this;
            const ratio = window.devicePixelRatio || 1;
            const width = canvas.clientWidth, height = canvas.clientHeight;
            if (!width || !height) return;
            if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
                canvas.width = Math.round(width * ratio);
                canvas.height = Math.round(height * ratio);
            }
            const pen = canvas.getContext("2d");
            pen.setTransform(ratio, 0, 0, ratio, 0, 0);
            pen.clearRect(0, 0, width, height);
            const [first, last] = this.visible();
            const [x0, x1] = group.bounds(), [y0, y1] = this.limits(first, last);
            pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
            const rows = Math.max(2, Math.round((height - PAD.top - PAD.bottom) / 42));
            const unit = this.unit ? this.unit(y1) : 1; /* ticks are round in this */
            const vertical = this.log ? logTicks(y0, y1)
                : ticks(y0 / unit, y1 / unit, rows).map((v) => v * unit);
            this.left = Math.max(PAD.left,
                12 + Math.max(0, ...vertical.map((v) => pen.measureText(this.formatY(v)).width)));
            const plot = { left: this.left, right: width - PAD.right, top: PAD.top,
                bottom: height - PAD.bottom };
            const scaleY = this.log ? Math.log10 : (v) => v;
            const px = (v) => plot.left + (v - x0) / (x1 - x0) * (plot.right - plot.left);
            const py = (v) => plot.bottom - (scaleY(v) - scaleY(y0)) / (scaleY(y1) - scaleY(y0)) *
                (plot.bottom - plot.top);
            this.drawAxes(pen, plot, px, py, [x0, x1], vertical);
            pen.save();
            pen.beginPath();
            pen.rect(plot.left, plot.top - 6, plot.right - plot.left + 6, plot.bottom - plot.top + 7);
            pen.clip();
            this.drawSeries(pen, px, py, first, last, plot);
            pen.restore();
            this.drawCursor(pen, plot, px, py);
            this.tell();
        }

        drawAxes(pen, plot, px, py, [x0, x1], vertical) {
            const { group } = this;
            pen.fillStyle = this.color("quiet");
            pen.strokeStyle = this.color("grid");
            pen.lineWidth = 1;
            pen.textBaseline = "middle";
            pen.textAlign = "right";
            for (const v of vertical) {
                const y = Math.round(py(v)) + 0.5;
                if (y < plot.top - 3 || y > plot.bottom + 3) continue;
                pen.beginPath();
                pen.moveTo(plot.left, y);
                pen.lineTo(plot.right, y);
                pen.stroke();
                pen.fillText(this.formatY(v), plot.left - 8, y);
            }
            pen.textBaseline = "top";
            pen.textAlign = "center";
            const wanted = Math.max(2, Math.round((plot.right - plot.left) / 90));
            for (const v of (group.isTime ? timeTicks : ticks)(x0, x1, wanted)) {
                const text = group.formatX(v), half = pen.measureText(text).width / 2, x = px(v);
                if (!group.isTime && v !== Math.round(v)) continue;
                pen.fillText(text, Math.max(plot.left + half - 20, Math.min(plot.right - half + 8, x)),
                    plot.bottom + 8);
            }
            pen.strokeStyle = this.color("line");
            pen.beginPath();
            pen.moveTo(plot.left, plot.bottom + 0.5);
            pen.lineTo(plot.right, plot.bottom + 0.5);
            pen.stroke();
        }

        drawSeries(pen, px, py, first, last, plot) {
            const { x } = this.group;
            const base = new Float64Array(Math.max(0, last - first + 1));
            for (const s of this.series) {
                const color = this.color(s.color), column = this.data[s.key];
                if (s.kind === "band") this.drawBand(pen, px, py, first, last, s, color);
                else if (s.kind === "area" && column) this.drawArea(pen, px, py, first, last, column, base, color);
                else if (s.kind === "point") this.drawMarks(pen, px, py, color, plot);
                else if (column) {
                    pen.globalAlpha = s.kind === "faint" ? 0.28 : 1;
                    pen.strokeStyle = color;
                    pen.lineWidth = s.kind === "faint" ? 1 : 2;
                    pen.lineJoin = pen.lineCap = "round";
                    pen.beginPath();
                    let down = false;
                    for (let i = first; i <= last; i++) {
                        const v = column[i];
                        if (!finite(v) || (this.log && v <= 0)) { down = false; continue; }
                        if (down) pen.lineTo(px(x[i]), py(v)); else pen.moveTo(px(x[i]), py(v));
                        down = true;
                    }
                    pen.stroke();
                    pen.globalAlpha = 1;
                    if (last === first && finite(column[first])) this.dot(pen, px(x[first]), py(column[first]), color, 2.5);
                }
            }
        }

        drawBand(pen, px, py, first, last, s, color) {
            const { x } = this.group, low = this.data[s.low], high = this.data[s.high];
            if (!low || !high || last <= first) return;
            pen.globalAlpha = 0.13;
            pen.fillStyle = color;
            pen.beginPath();
            for (let i = first; i <= last; i++) pen.lineTo(px(x[i]), py(high[i]));
            for (let i = last; i >= first; i--) pen.lineTo(px(x[i]), py(this.log ? Math.max(low[i], 1e-12) : low[i]));
            pen.fill();
            pen.globalAlpha = 1;
        }

        drawArea(pen, px, py, first, last, column, base, color) {
            const { x } = this.group;
            pen.fillStyle = color;
            pen.globalAlpha = 0.88;
            pen.beginPath();
            for (let i = first; i <= last; i++) pen.lineTo(px(x[i]), py(base[i - first] + (column[i] || 0)));
            for (let i = last; i >= first; i--) {
                pen.lineTo(px(x[i]), py(base[i - first]));
                base[i - first] += column[i] || 0;
            }
            pen.fill();
            pen.globalAlpha = 1;
        }

        drawMarks(pen, px, py, color) {
            pen.strokeStyle = color;
            pen.lineWidth = 2;
            pen.lineJoin = "round";
            pen.beginPath();
            for (const mark of this.marks) if (finite(mark.y)) pen.lineTo(px(mark.x), py(mark.y));
            pen.stroke();
            for (const mark of this.marks)
                if (finite(mark.y)) this.dot(pen, px(mark.x), py(mark.y), color, this.marks.length > 60 ? 2 : 3.5);
        }

        dot(pen, x, y, color, radius) {
            pen.fillStyle = color;
            pen.strokeStyle = this.color("card");
            pen.lineWidth = 1.5;
            pen.beginPath();
            pen.arc(x, y, radius, 0, 2 * Math.PI);
            pen.fill();
            pen.stroke();
        }

        drawCursor(pen, plot, px, py) {
            const { group } = this, { cursor, selecting, x } = group;
            if (selecting) {
                const from = px(selecting.from), to = px(selecting.to);
                pen.globalAlpha = 0.15;
                pen.fillStyle = this.color("accent");
                pen.fillRect(Math.min(from, to), plot.top, Math.abs(to - from), plot.bottom - plot.top);
                pen.globalAlpha = 1;
            }
            if (cursor === null || cursor >= x.length) return;
            const at = px(x[cursor]);
            if (at < plot.left - 1 || at > plot.right + 1) return;
            pen.strokeStyle = this.color("quiet");
            pen.lineWidth = 1;
            pen.setLineDash([3, 3]);
            pen.beginPath();
            pen.moveTo(Math.round(at) + 0.5, plot.top);
            pen.lineTo(Math.round(at) + 0.5, plot.bottom);
            pen.stroke();
            pen.setLineDash([]);
            for (const s of this.series) {
                const column = this.data[s.key];
                if ((s.kind === "line" || !s.kind) && column && finite(column[cursor]))
                    this.dot(pen, at, py(column[cursor]), this.color(s.color), 4);
            }
        }

        /* The legend shows what is under the cursor, or the newest. */
        tell() {
            const { group } = this;
            const index = group.cursor === null ? group.x.length - 1 : group.cursor;
            const texts = index < 0 ? [] : this.legend(index);
            const parts = [];
            while (this.values.children.length > texts.length) this.values.lastChild.remove();
            texts.forEach(([color, label, value, isPoint], i) => {
                let item = this.values.children[i];
                if (!item) {
                    item = document.createElement("span");
                    item.append(document.createElement("i"), document.createTextNode(""), document.createElement("b"));
                    this.values.append(item);
                }
                const [mark, text, number] = item.childNodes;
                mark.hidden = !color;
                mark.className = isPoint ? "point" : "";
                if (color) mark.style.background = `var(--${color})`;
                text.data = `${label} `;
                number.textContent = value;
                parts.push(`${label} ${value}`);
            });
            this.canvas.setAttribute("aria-label", `${this.title}: ${parts.join(", ") || "nothing yet"}`);
        }
    }

    return { Group, Chart, nearest };
})();
