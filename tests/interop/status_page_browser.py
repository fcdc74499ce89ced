"""Drives Chromium over the status page of a server; see check_status_page.sh."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PROGRAM = sys.argv[1]
SHOTS = os.environ.get("STATUS_SHOTS")
results = {"passed": 0, "failed": 0}


def check(what, condition, detail=""):
    results["passed" if condition else "failed"] += 1
    if not condition:
        print(f"FAILED: {what}: {detail}")


def wait(what, condition, seconds=120):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            check(what, True)
            return
        time.sleep(0.1)
    check(what, False, f"not within {seconds} s")


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--disable-background-networking", "--window-size=1440,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def emulate(driver, width, height, mobile=False, scheme="light"):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def shoot(driver, name):
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
        driver.save_screenshot(os.path.join(SHOTS, name + ".png"))


def text(driver, name):
    return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)


def value(driver, name):
    found = driver.execute_script("return document.getElementById(arguments[0]).dataset.value", name)
    return float(found) if found else None


def cells(driver):
    """Rows of the first model's table."""
    return driver.execute_script("""
        return [...document.querySelectorAll("article.model tbody tr")].map((row) =>
            [...row.cells].map((cell) => cell.innerText));""")


def start(models):
    process = subprocess.Popen([PROGRAM, "serve", "--host", "127.0.0.1", "--port", "0", "--rest-port", "auto",
                                "--poll", "0.2", "--model", f"digits={models}"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        found = re.match(r"Status page: (\S+)", line)
        if found:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, found.group(1)
    raise RuntimeError("the server did not start")


def ask(address, body):
    request = urllib.request.Request(address + "v1/models/digits:predict", data=body)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def check_page(driver, models, address, body):
    driver.get(address)
    wait("the page says that the server is ready", lambda: text(driver, "state-text") == "ready")
    check("it names the model", "digits" in text(driver, "models"), text(driver, "models"))
    stop = threading.Event()

    def keep_asking():
        while not stop.is_set():
            ask(address, body)

    askers = [threading.Thread(target=keep_asking) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        wait("it shows the rate of requests", lambda: (value(driver, "rate") or 0) > 0)
        wait("it shows latencies", lambda: (value(driver, "p50") or 0) > 0 and (value(driver, "p99") or 0) > 0)
        check("the median is not above the 99 %", value(driver, "p50") <= value(driver, "p99"))
        wait("it shows batches", lambda: (value(driver, "batch") or 0) >= 1)
        wait("histograms and the curve are drawn", lambda: driver.execute_script(
            "return document.querySelectorAll('rect.bar').length >= 2 && !!document.querySelector('.curve')"))
        before = float(cells(driver)[0][2].replace("\u202f", ""))
        wait("the table follows", lambda: float(cells(driver)[0][2].replace("\u202f", "")) > before)
        shoot(driver, "serving")
        shutil.copytree(os.path.join(models, "1"), os.path.join(models, "2"))
        wait("a new version takes over", lambda: [row[:2] for row in cells(driver)][0] == ["2", "available"])
        os.makedirs(os.path.join(models, "3"))
        wait("a broken one is shown with the reason", lambda: "not served" in cells(driver)[0][1])
        wait("the old one is over", lambda: cells(driver)[-1][1] == "end")
        shoot(driver, "versions")
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    data = json.load(urllib.request.urlopen(address + "data"))
    answered = sum(data["counts"][0]["statuses"].values())
    wait("the numbers are those of the server", lambda: sum(
        float(row[2].replace("\u202f", "").replace("–", "0")) for row in cells(driver)) == answered)
    for name, size in {"phone": (390, 844, True), "desk": (1440, 1000, False)}.items():
        for scheme in ("light", "dark"):
            emulate(driver, *size, scheme=scheme)
            time.sleep(0.3)
            wide = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            check(f"nothing sticks out: {name}, {scheme}", wide <= 0, wide)
            shoot(driver, f"{name}-{scheme}")
    before = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    driver.execute_script("document.getElementById('theme').click()")
    driver.execute_script("document.getElementById('theme').click()")
    driver.execute_script("document.getElementById('theme').click()")
    check("three clicks lead back to the same colours",
          driver.execute_script("return getComputedStyle(document.body).backgroundColor") == before)
    lines = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    check("the console stayed empty", lines == [], lines)


def main():
    with tempfile.TemporaryDirectory() as directory:
        run, models = os.path.join(directory, "run"), os.path.join(directory, "models")
        quiet = {"stdout": subprocess.DEVNULL, "check": True}
        subprocess.run([PROGRAM, "train", "mnist_custom", "--data", "digits", "--examples", "640", "--steps", "3",
                        "--output-dir", run, "--quiet"], **quiet)
        subprocess.run([PROGRAM, "export", run, "--export-dir", models], **quiet)
        body = json.dumps({"instances": [[[[0.5]] * 28] * 28] * 2}).encode()
        process, address = start(models)
        driver = open_browser()
        try:
            check_page(driver, models, address, body)
            process.send_signal(signal.SIGTERM)
            check("the server ends although a page is open", process.wait(timeout=60) == 0, process.returncode)
            wait("the page says that nobody answers", lambda: text(driver, "state-text") == "no connection")
        finally:
            driver.quit()
            if process.poll() is None:
                process.kill()


try:
    main()
except Exception:
    traceback.print_exc()
    results["failed"] += 1
print(f"{results['passed']} passed, {results['failed']} failed")
sys.exit(1 if results["failed"] else 0)
