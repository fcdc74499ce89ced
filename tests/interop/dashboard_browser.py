"""Drives Chromium over the pages of a training; see check_dashboard.sh."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PROGRAM = sys.argv[1]
SHOTS = os.environ.get("DASHBOARD_SHOTS")
results = {"passed": 0, "failed": 0}


def check(what, condition, detail=""):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print(f"FAILED: {what}: {detail}")


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--disable-background-networking", "--window-size=1440,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def emulate(driver, width, height, mobile=False, **features):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})


def shoot(driver, name):
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
        driver.save_screenshot(os.path.join(SHOTS, name + ".png"))


def wait(what, condition, seconds=180):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            check(what, True)
            return True
        time.sleep(0.1)
    check(what, False, f"not within {seconds} s")
    return False


def text(driver, name):
    """In one go: the page may change between finding and asking."""
    return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)


def value(driver, name):
    found = driver.execute_script("return document.getElementById(arguments[0]).dataset.value", name)
    return float(found) if found else None


def complaints(driver, of_network=True):
    lines = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    return [line for line in lines if of_network or "net::" not in line]


def start(*words, launcher=()):
    process = subprocess.Popen([*launcher, PROGRAM, "train", "mnist_custom", "--examples", "1280", "--threads", "1", *words],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    address = None
    for line in process.stderr:
        found = re.match(r"lockstep: dashboard: (\S+)", line)
        if found:
            address = found.group(1)
            break
    # Whatever else it says is read, so that it never waits for us.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process, address


def painted(driver):
    """Points of each chart that have a colour of their own (not grey, not empty)."""
    return driver.execute_script("""
        return [...document.querySelectorAll("canvas")].filter((c) => c.clientWidth).map((canvas) => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const pen = copy.getContext("2d", { willReadFrequently: true });
            pen.drawImage(canvas, 0, 0);
            const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let i = 0; i < pixels.length; i += 4)
                if (pixels[i + 3] > 60 && Math.max(pixels[i], pixels[i + 1], pixels[i + 2]) -
                    Math.min(pixels[i], pixels[i + 1], pixels[i + 2]) > 60) count++;
            return count;
        });""")


def check_live(driver, directory):
    report_path = os.path.join(directory, "report.json")
    process, address = start("--steps", "200", "--eval-every", "50", "--dashboard", "0", "--json", report_path,
                             "--output-dir", os.path.join(directory, "run"))
    try:
        driver.get(address)
        wait("the page shows the running training",
             lambda: text(driver, "state-text") == "running" and (value(driver, "step") or 0) > 0)
        before = value(driver, "step")
        wait("it follows the steps by itself", lambda: (value(driver, "step") or 0) > before)
        check("it names model and data", text(driver, "model") == "mnist_custom" and "digits" in text(driver, "about"),
              text(driver, "about"))
        wait("it has an evaluation", lambda: value(driver, "eval-main") is not None)
        wait("it has times of layers",
             lambda: "%" in driver.execute_script("return document.querySelector('#layer-rows .meter b').textContent"))
        emulate(driver, 1440, 1000)
        time.sleep(0.5)
        check("every chart is drawn", len(painted(driver)) == 6 and min(painted(driver)) > 20, painted(driver))
        shoot(driver, "live")
        wait("it says that the run has finished", lambda: text(driver, "state-text") == "finished", 400)
        wait("it knows that nobody will answer any more", lambda: text(driver, "source") == "the run has ended")
    finally:
        process.wait(timeout=300)
    check("a finished run needs no warning", not driver.find_element(By.ID, "notice").is_displayed(),
          text(driver, "notice"))
    complained = complaints(driver)
    check("the console stayed empty", complained == [], complained)
    report = json.load(open(report_path))
    compare(driver, report, "live")
    return report


def compare(driver, report, which):
    check(f"{which}: steps as in --json", value(driver, "step") == report["steps"], value(driver, "step"))
    check(f"{which}: evaluated accuracy as in --json", value(driver, "eval-main") == report["accuracy"],
          f'{value(driver, "eval-main")} against {report["accuracy"]}')
    check(f"{which}: evaluated loss as in --json", value(driver, "eval-note") == report["loss"],
          f'{value(driver, "eval-note")} against {report["loss"]}')
    shown = float(re.match(r"[0-9.]+", text(driver, "eval-main")).group())
    check(f"{which}: the accuracy is shown", abs(shown - 100 * report["accuracy"]) < 0.0051, shown)


def check_saved(driver, directory, report):
    driver.get("file://" + os.path.join(directory, "run", "dashboard.html"))
    compare(driver, report, "saved")
    check("saved: it says what it is", text(driver, "source") == "saved run" and text(driver, "state-text") == "finished")
    loaded = driver.execute_script("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length")
    check("saved: it asks nobody for anything", loaded == 0, loaded)
    time.sleep(0.5)
    check("saved: every chart is drawn", len(painted(driver)) == 6 and min(painted(driver)) > 20, painted(driver))
    lines = text(driver, "log-lines")
    check("saved: the log is there", "finished 200 steps" in lines, lines[-200:])
    check("saved: one rank has no panel of ranks", not driver.find_element(By.ID, "ranks").is_displayed())
    check("saved: the settings are there", "batch-size" in text(driver, "settings-list"))
    complained = complaints(driver)
    check("saved: the console is empty", complained == [], complained)


def press(driver, *keys):
    for key in keys:
        webdriver.ActionChains(driver).send_keys(key).perform()


def check_keyboard(driver):
    legend = lambda: driver.find_element(By.CSS_SELECTOR, "#loss-card .values").text
    pressed = lambda name: driver.find_element(By.ID, name).get_attribute("aria-pressed") == "true"
    root = lambda: driver.find_element(By.TAG_NAME, "html").get_attribute("data-theme")
    reached = set()
    for _ in range(14):
        press(driver, Keys.TAB)
        reached.add(driver.execute_script("return document.activeElement.id || document.activeElement.tagName"))
    check("Tab reaches buttons and charts", {"theme", "help", "by-step", "smoothing", "CANVAS"} <= reached, reached)
    driver.execute_script("document.querySelector('#loss-card canvas').focus()")
    press(driver, Keys.END)
    time.sleep(0.2)
    check("End puts the cursor on the last step", "step 200" in legend(), legend())
    press(driver, Keys.ARROW_LEFT)
    time.sleep(0.2)
    check("the arrow moves it", "step 199" in legend(), legend())
    press(driver, Keys.HOME)
    time.sleep(0.2)
    check("Home moves it to the first", "step 1 " in legend(), legend())
    label = driver.find_element(By.CSS_SELECTOR, "#loss-card canvas").get_attribute("aria-label")
    check("a screen reader is told the values", label.startswith("Loss: step 1"), label)
    press(driver, Keys.END, "+", "+")
    check("+ zooms in", driver.find_element(By.ID, "unzoom").is_displayed())
    press(driver, "0", Keys.ESCAPE)
    time.sleep(0.2)
    check("0 shows all, Esc takes the cursor away",
          not driver.find_element(By.ID, "unzoom").is_displayed() and "step" not in legend(), legend())
    press(driver, "x")
    check("x goes to time", pressed("by-time") and not pressed("by-step"))
    press(driver, "x", "l")
    check("l takes logarithms", pressed("log-scale") and pressed("by-step"))
    press(driver, "l", "[")
    check("[ smooths less", text(driver, "smoothing-value") == "0.70", text(driver, "smoothing-value"))
    press(driver, "]", "t")
    check("t goes to light", root() == "light", root())
    press(driver, "t")
    check("t again to dark", root() == "dark", root())
    press(driver, "t")
    press(driver, "?")
    check("? shows the keys", driver.find_element(By.ID, "shortcuts").is_displayed())
    shoot(driver, "keys")
    press(driver, Keys.ESCAPE)
    check("Esc closes them", not driver.find_element(By.ID, "shortcuts").is_displayed())
    press(driver, "/", *"dense")
    rows = [row.text for row in driver.find_elements(By.CSS_SELECTOR, "#layer-rows tr")]
    check("/ filters layers", rows and all("dense" in row for row in rows), rows)
    press(driver, Keys.ESCAPE)
    press(driver, "g", "g")
    operations = [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "#layer-rows .op")]
    check("g sums up by operation", len(operations) == len(set(operations)) > 3, operations)
    press(driver, "g")
    driver.find_element(By.CSS_SELECTOR, "th[data-key=node] button").click()
    names = [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "#layer-rows .name")]
    check("a click sorts by name", names == sorted(names) and len(names) > 5, names)


def check_looks(driver):
    background = lambda: driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    emulate(driver, 1440, 900, prefers_color_scheme="dark")
    check("dark when the system is", background() == "rgb(14, 17, 22)", background())
    time.sleep(0.3)
    shoot(driver, "dark")
    emulate(driver, 390, 844, mobile=True, prefers_color_scheme="light", prefers_reduced_motion="reduce")
    time.sleep(0.5)
    check("light when the system is", background() == "rgb(246, 247, 249)", background())
    width = driver.execute_script("return document.documentElement.scrollWidth")
    check("a phone need not scroll sideways", width <= 390, width)
    check("every chart is drawn on a phone", len(painted(driver)) == 6 and min(painted(driver)) > 20, painted(driver))
    motion = driver.execute_script("""const dot = document.querySelector('.dot');
        document.getElementById('state').dataset.state = 'running';
        return getComputedStyle(dot).animationName + getComputedStyle(document.getElementById('bar')).transitionDuration;""")
    check("nothing moves for those who do not want it", motion == "none0s", motion)
    shoot(driver, "phone")
    emulate(driver, 1440, 900)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def check_reconnecting(driver):
    port = str(free_port())
    first, address = start("--steps", "1000000", "--dashboard", port)
    second = None
    try:
        driver.get(address)
        wait("the first run is there", lambda: text(driver, "state-text") == "running" and (value(driver, "step") or 0) > 3)
        first.kill()
        first.wait()
        wait("it says that the connection is lost", lambda: text(driver, "state-text") == "connection lost")
        second, _ = start("--steps", "1000000", "--batch-size", "16", "--dashboard", port)
        wait("it finds the next run by itself", lambda: text(driver, "state-text") == "running" and
             "batch 16" in text(driver, "about"))
        complained = complaints(driver, of_network=False)
        check("no complaint but of the network", complained == [], complained)
    finally:
        first.kill()
        first.wait()
        if second:
            second.terminate()
            second.wait()


RANKS = """return [...document.querySelectorAll("#rank-rows li")].map((row) => ({
    text: row.innerText, slowest: row.className === "slowest",
    bar: [...row.querySelectorAll(".stack div")].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) }))"""


def check_ranks(driver, directory):
    """Two ranks on this machine: who they are, and where their time goes."""
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    process, address = start("--steps", "300", "--dashboard", "0", "--output-dir", directory,
                             launcher=("mpirun", "-np", "2", "--oversubscribe"))
    try:
        driver.get(address)
        wait("ranks: the page shows both", lambda: len(driver.execute_script(RANKS)) == 2)
        wait("ranks: it has reached the end", lambda: text(driver, "state-text") == "finished", 400)
    finally:
        process.wait(timeout=300)
    check("ranks: the console stayed empty", (complained := complaints(driver)) == [], complained)
    driver.get("file://" + os.path.join(directory, "dashboard.html"))
    emulate(driver, 1440, 1000)
    driver.execute_script("document.getElementById('ranks').scrollIntoView({ block: 'center', behavior: 'instant' })")
    time.sleep(0.5)
    rows, host = driver.execute_script(RANKS), socket.gethostname()
    check("ranks: each is named with its host",
          [row["text"].startswith(f"rank {i}") and host in row["text"] for i, row in enumerate(rows)] == [True, True], rows)
    check("ranks: one is the slowest", sum(row["slowest"] for row in rows) == 1, rows)
    check("ranks: their bars are drawn", all(row["bar"] > 50 for row in rows), rows)
    check("ranks: the slowest is named", f"on {host}" in text(driver, "ranks-slowest"), text(driver, "ranks-slowest"))
    check("ranks: the size of buckets is shown", "bucket" in text(driver, "ranks-sum"), text(driver, "ranks-sum"))
    check("ranks: reductions have a chart", len(painted(driver)) == 7 and min(painted(driver)) > 20, painted(driver))
    shoot(driver, "ranks")
    emulate(driver, 390, 844, mobile=True)
    time.sleep(0.5)
    check("ranks: they fit a phone", driver.execute_script("return document.documentElement.scrollWidth") <= 390)
    shoot(driver, "ranks-phone")
    emulate(driver, 1440, 1000)


def main():
    driver = open_browser()
    try:
        with tempfile.TemporaryDirectory() as directory:
            report = check_live(driver, directory)
            check_saved(driver, directory, report)
            check_keyboard(driver)
            check_looks(driver)
            check_reconnecting(driver)
            check_ranks(driver, os.path.join(directory, "ranks"))
    except Exception:
        traceback.print_exc(limit=4)
        results["failed"] += 1
    finally:
        driver.quit()
    print(f"{results['passed']} passed, {results['failed']} failed")
    sys.exit(results["failed"] > 0)


main()
