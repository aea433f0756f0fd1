def case_star_not_raised():
    try:
        x = 1
    except* ValueError:
        x = 2
    return x


def case_star_not_matching():
    try:
        1 // 0
    except* ValueError:
        return_value = 2
