/* Numbers as people read them, and the few ways in which this page changes its elements. */
"use strict";

const Text = (() => {
    const $ = (id) => document.getElementById(id);
    const finite = (v) => v !== null && v !== undefined && Number.isFinite(v);

    function number(v) {
        if (!finite(v)) return "–";
        const size = Math.abs(v);
        if (size !== 0 && (size < 1e-4 || size >= 1e7)) return v.toExponential(2).replace("e+", "e");
        return v.toFixed(size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
    }
    const grouped = (v) => finite(v) ? Math.round(v).toLocaleString("en").replaceAll(",", "\u202f") : "–";
    const percent = (v) => finite(v) ? `${(v * 100).toFixed(2)} %` : "–";
    function axisNumber(v) {
        const size = Math.abs(v);
        if (size >= 1e10) return v.toExponential(1).replace("e+", "e");
        if (size >= 1e6) return `${+(v / 1e6).toPrecision(4)}M`;
        if (size >= 1e4) return `${+(v / 1e3).toPrecision(4)}k`;
        if (size !== 0 && size < 1e-3) return v.toExponential().replace("e+", "e");
        return String(+v.toPrecision(6));
    }
    function bytes(v) {
        if (!finite(v)) return ["–", ""];
        const units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let unit = 0;
        while (v >= 1023.5 && unit < units.length - 1) { v /= 1024; unit++; }
        return [unit === 0 || v >= 99.95 ? v.toFixed(0) : v.toFixed(v < 10 ? 2 : 1), units[unit]];
    }
    const bytesText = (v) => bytes(v).join(" ").trim();
    function seconds(v) {
        if (!finite(v)) return ["–", ""];
        if (v < 1e-3) return [(v * 1e6).toFixed(v < 1e-5 ? 1 : 0), "µs"];
        if (v < 1) return [(v * 1e3).toFixed(v < 0.01 ? 2 : v < 0.1 ? 1 : 0), "ms"];
        return [v.toFixed(v < 10 ? 2 : 1), "s"];
    }
    const secondsText = (v) => seconds(v).join(" ").trim();
    function duration(v) {
        if (!finite(v) || v < 0) return "?";
        const whole = Math.round(v), two = (n) => String(n).padStart(2, "0");
        const days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24;
        const minutes = Math.floor(whole / 60) % 60;
        if (days) return `${days} d ${two(hours)}:${two(minutes)}`;
        if (hours) return `${hours}:${two(minutes)}:${two(whole % 60)}`;
        return `${minutes}:${two(whole % 60)}`;
    }

    /* Sets a text only when it differs, and the value behind it for whoever reads the page. */
    function show(id, text, value, unit) {
        const element = $(id);
        if (value !== undefined) element.dataset.value = value === null ? "" : String(value);
        if (element.dataset.text === text + (unit || "")) return;
        element.dataset.text = text + (unit || "");
        element.textContent = text;
        if (unit) {
            const small = document.createElement("small");
            small.textContent = unit;
            element.append(small);
        }
    }
    function make(tag, text, className) {
        const element = document.createElement(tag);
        if (text !== undefined) element.textContent = text;
        if (className) element.className = className;
        return element;
    }

    return { $, finite, number, grouped, percent, axisNumber, bytes, bytesText, seconds, secondsText, duration, show, make };
})();
