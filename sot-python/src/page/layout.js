// Where the boxes of one level stand: in rows, each below all that it depends on; in a row ordered so that few lines cross.

const GAP_X = 26;
const GAP_Y = 46;

// `nodes` come in an order in which each follows what it depends on, with `width` and `height`; `edges` are pairs of
// indices. Sets `x` and `y` of the nodes, and gives the size of the whole and the way of each edge.
function layered(nodes, edges) {
  const row = nodes.map(() => 0);
  for (const [from, to] of [...edges].sort((a, b) => a[0] - b[0])) row[to] = Math.max(row[to], row[from] + 1);
  const items = nodes.map((node, index) => ({ node, row: row[index], width: node.width, height: node.height, up: [], down: [] }));
  const ways = edges.map(([from, to]) => {
    const way = [items[from]];
    for (let at = row[from] + 1; at < row[to]; at += 1) {
      const bend = { node: null, row: at, width: 8, height: 0, up: [], down: [] };
      items.push(bend);
      way.push(bend);
    }
    way.push(items[to]);
    for (let at = 1; at < way.length; at += 1) {
      way[at - 1].down.push(way[at]);
      way[at].up.push(way[at - 1]);
    }
    return way;
  });
  const rows = [];
  for (const item of items) (rows[item.row] = rows[item.row] || []).push(item);
  order(rows);
  place(rows);
  let y = 0;
  for (const items of rows) {
    const height = Math.max(...items.map((item) => item.height));
    for (const item of items) item.y = y + (height - item.height) / 2;
    y += height + GAP_Y;
  }
  const left = Math.min(...items.map((item) => item.x), 0);
  for (const item of items) {
    item.x -= left;
    if (item.node) Object.assign(item.node, { x: item.x, y: item.y });
  }
  return {
    width: Math.max(0, ...items.map((item) => item.x + item.width)),
    height: Math.max(0, y - GAP_Y),
    ways: ways.map((way) => way.map((item) => ({ x: item.x + item.width / 2, y: item.y, height: item.height }))),
  };
}

const middle = (items) => items.reduce((all, item) => all + item.x + item.width / 2, 0) / items.length;

// Each item goes to the mean of its neighbours' places in the row beside, some times up and down.
function order(rows) {
  rows.forEach((items) => items.forEach((item, at) => { item.at = at; }));
  const sweep = (items, side) => {
    for (const item of items) {
      const beside = item[side];
      item.mean = beside.length ? beside.reduce((all, other) => all + other.at, 0) / beside.length : item.at;
    }
    items.sort((a, b) => a.mean - b.mean).forEach((item, at) => { item.at = at; });
  };
  for (let round = 0; round < 4; round += 1) {
    rows.slice(1).forEach((items) => sweep(items, "up"));
    rows.slice(0, -1).reverse().forEach((items) => sweep(items, "down"));
  }
}

// Items stand side by side at first, then move towards their neighbours without overtaking.
function place(rows) {
  for (const items of rows) {
    let x = 0;
    for (const item of items) {
      item.x = x;
      x += item.width + GAP_X;
    }
  }
  const widest = Math.max(...rows.map((items) => end(items)));
  for (const items of rows) shift(items, (widest - end(items)) / 2);
  for (let round = 0; round < 6; round += 1) {
    rows.forEach((items) => pull(items, "up"));
    [...rows].reverse().forEach((items) => pull(items, "down"));
  }
}

const end = (items) => items[items.length - 1].x + items[items.length - 1].width;
const shift = (items, by) => items.forEach((item) => { item.x += by; });

// Moves a row's items towards what they are tied to: the mean of a pass from the left and one from the right.
function pull(items, side) {
  const wanted = items.map((item) => (item[side].length ? middle(item[side]) - item.width / 2 : item.x));
  const fromLeft = [];
  items.forEach((item, at) => {
    const least = at ? fromLeft[at - 1] + items[at - 1].width + GAP_X : -Infinity;
    fromLeft.push(Math.max(wanted[at], least));
  });
  const fromRight = [];
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const most = at + 1 < items.length ? fromRight[at + 1] - items[at].width - GAP_X : Infinity;
    fromRight[at] = Math.min(wanted[at], most);
  }
  items.forEach((item, at) => { item.x = (fromLeft[at] + fromRight[at]) / 2; });
}
