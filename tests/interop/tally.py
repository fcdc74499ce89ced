"""What the checks written in Python share: counting, and the line with which each of them ends."""
passed = failed = 0


def check(what, condition, found=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print("FAIL", what, str(found)[-1500:])


def ends():
    """Prints the last line; true when something failed: the check's exit status."""
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0
