"""Loops as programs have them: meters, early stopping, loaders, logs, samples, search. Bodies for `templates.shape`."""

PROGRAMS = {
    "meter": """
class Meter:
    def __init__(self): self.reset()
    def reset(self): self.val = self.avg = self.sum = 0.0; self.count = 0
    def update(self, val, n=1):
        self.val = val; self.sum += val * n; self.count += n; self.avg = self.sum / self.count
m = Meter()
for i in range(n):
    y = y * 0.5 + i % 7
    m.update(float(y))
    if i % 100 == 0: out.append(f'{i} {m.val:.3f} {m.avg:.3f}')
y = y + m.avg
""",
    "meters_dict": """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, val): self.sum += val; self.count += 1
    @property
    def avg(self): return self.sum / max(self.count, 1)
ms = {'loss': Meter(), 'acc': Meter()}
for i in range(n):
    y = y * 0.5 + i % 7
    ms['loss'].update(float(y)); ms['acc'].update(float(y * 2))
    if i % 100 == 99: out.append({k: round(v.avg, 3) for k, v in ms.items()})
""",
    "skip_bad": """
for i in range(n):
    z = y * 0.5 + i % 7
    if float(z) > 8: continue
    y = z
""",
    "tensor_if": """
for i in range(n):
    y = y * 0.5 + i % 7
    if y > 6: y = y - 1
    elif y > 3: y = y * 0.9
    else: y = y + 0.1
""",
    "tensor_while_inner": """
for i in range(n // 5):
    y = y + 5
    while y > 3:
        y = y * 0.5
""",
    "try_step": """
def step(y, i):
    z = y * 0.5 + i % 7
    v = float(z)
    if v > 8: raise ValueError(v)
    return z
for i in range(n):
    try:
        y = step(y, i)
    except ValueError as e:
        out.append(str(e))
        y = y * 0.1
""",
    "with_managed": """
import contextlib
@contextlib.contextmanager
def timed(log):
    log.append(1)
    yield
    log.append(2)
for i in range(n // 3):
    with timed(out):
        y = y * 0.5 + i % 7
        toy.save(y)
""",
    "with_own": """
class Timer:
    def __init__(self, log): self.log = log
    def __enter__(self): self.n = len(self.log); return self
    def __exit__(self, *e): self.log.append(self.n)
for i in range(n):
    with Timer(out) as t:
        y = y * 0.5 + i % 7
        toy.save(y)
""",
    "tqdm": """
class Bar:
    def __init__(self, it): self.it, self.n = it, 0
    def __iter__(self):
        for x in self.it:
            yield x
            self.n += 1
    def set_postfix(self, **k): self.last = k
bar = Bar(range(n))
for i in bar:
    y = y * 0.5 + i % 7
    bar.set_postfix(loss=float(y), step=i)
out.append(bar.n)
""",
    "loader": """
class Data:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i >= self.n: raise IndexError(i)
        return i, i % 3
for i, k in Data(n):
    y = y * 0.5 + k
    out.append(float(y))
""",
    "loader_gen": """
def batches(items, size):
    for k in range(0, len(items), size):
        yield items[k:k + size]
for b in batches(items, 4):
    y = y * 0.5 + len(b) + b[0] % 5
    out.append(float(y))
""",
    "best_state": """
best, state = None, {}
for i in range(n):
    y = y * 0.5 + (i * 7) % 13
    v = float(y)
    if best is None or v < best:
        best = v
        state = {'step': i, 'y': y}
out.append(state['step'])
y = y + state['y']
""",
    "scheduler": """
class Sched:
    def __init__(self, lr): self.lr, self.n, self.base = lr, 0, lr
    def step(self):
        self.n += 1
        self.lr = self.base * 0.95 ** (self.n // 50)
s = Sched(0.5)
for i in range(n):
    y = y - s.lr * y + 1
    s.step()
    if i % 10 == 0: toy.save(y)
""",
    "patience": """
best, wait = float('inf'), 0
for epoch in range(n // 10):
    total = 0.0
    for i in range(10):
        y = y * 0.9 + i % 3
        total += float(y)
    if total < best - 1e-3: best, wait = total, 0
    else: wait += 1
    if wait >= n: break
else:
    out.append('end')
""",
    "print_each": """
for i in range(n):
    y = y * 0.5 + 1
    print(i, y)
""",
    "print_known": """
for i in range(n):
    y = y * 0.5 + 1
    print('step', i)
    if i % 10 == 0: toy.save(y)
""",
    "zip_longest": """
import itertools
for i, j in itertools.zip_longest(range(n), items[:7], fillvalue=2):
    y = y * 0.5 + j
    toy.save(y)
""",
    "list_pop": """
work = list(items)
while work:
    i = work.pop()
    y = y * 0.5 + i % 3
    toy.save(y)
""",
    "deque_pop": """
work = collections.deque(items)
while work:
    i = work.popleft()
    y = y * 0.5 + i % 3
    if i % 4 == 0: toy.save(y)
""",
    "heap": """
import heapq
work = list(range(20)); heapq.heapify(work)
for i in range(n):
    k = heapq.heappop(work)
    y = y * 0.5 + k % 3
    toy.save(y)
    heapq.heappush(work, k + 20)
""",
    "str_keys": """
for i in range(n):
    k = f'k{i % 5}'
    table[k] = y * 1
    y = y * 0.5 + len(k)
    toy.save(y)
y = y + table['k0']
""",
    "recursive": """
def walk(y, d):
    if d == 0:
        toy.save(y)
        return y * 0.5
    return walk(y + 1, d - 1)
for i in range(n // 5):
    y = walk(y, i % 3)
""",
    "closures": """
count = 0
def bump(v):
    nonlocal count
    count += 1
    if count % 10 == 0: out.append(v)
for i in range(n):
    y = y * 0.5 + 1
    bump(float(y))
""",
    "unsure": """
for i in range(n):
    if i % 3 == 0: z = y * 1
    y = y * 0.5 + i % 5
    if i % 7 == 1: toy.save(y)
    if i % 5 == 1: out.append(float(y))
    if i % 11 == 1: last = i
y = y + z
""",
    "finally_loop": """
for i in range(n):
    try:
        y = y * 0.5 + 1
        toy.save(y)
        if i % 5 == 0: continue
        y = y + 1
    finally:
        out.append(i)
""",
    "nested_try_break": """
for i in range(n // 10):
    for j in range(20):
        try:
            y = y * 0.5 + j
            if float(y) > 17: break
        except ValueError:
            pass
    else:
        out.append(i)
""",
    "comp_in_loop": """
for i in range(n // 5):
    v = [float(y + k) for k in range(3)]
    y = y * 0.5 + max(v) % 3
""",
    "enumerate_zip": """
for i, (a, b) in enumerate(zip(items, reversed(items))):
    y = y * 0.5 + a % 3 - b % 2
    toy.save(y)
""",
    "list_of_tensors": """
hs = [y, y + 1, y + 2]
for i in range(n):
    hs = [h * 0.5 + i % 3 for h in hs]
    toy.save(hs[0])
y = sum(hs)
""",
    "hist_append": """
hs = []
for i in range(n // 3):
    y = y * 0.5 + 1
    hs.append(y)
    if i % 3 == 0: toy.save(y)
y = sum(hs[-3:])
""",
    "object_items": """
class Item:
    def __init__(self, k): self.k = k; self.seen = False
its = [Item(i % 4) for i in range(n)]
for it in its:
    y = y * 0.5 + it.k
    it.seen = True
    toy.save(y)
out.append(sum(i.seen for i in its))
""",
    "matched": """
import re
for i in range(n):
    m = re.match('([0-9])', str(i))
    y = y * 0.5 + int(m.group(1)) % 3
    toy.save(y)
""",
    "numpy_like": """
for i in range(n):
    v = y.tolist()
    y = y * 0.5 + v[0] % 3
""",
    "int_index": """
for i in range(n):
    k = int(y) % 5
    y = y * 0.5 + items[k]
""",
    "accum": """
acc = None
for i in range(n):
    g = y * 0.1
    acc = g if acc is None else acc + g
    if (i + 1) % 4 == 0:
        y = y - acc
        acc = None
        toy.save(y)
""",
    "bool_flags": """
done = flag = False
i = 0
while not done:
    i += 1
    y = y * 0.5 + i % 3
    if not flag and float(y) > 3: flag = True
    if i >= n: done = True
    if flag: toy.save(y)
""",
    "print_every_known": """
for i in range(n):
    y = y * 0.5 + 1
    if i % 100 == 0: print('step', i, float(y))
""",
    "ema_dict": """
ema = {'a': 0.0, 'b': 0.0}
for i in range(n):
    y = y * 0.5 + i % 7
    for k in ema:
        ema[k] = ema[k] * 0.9 + float(y) * 0.1
y = y + ema['a']
""",
}
