// The layout of the boxes of one level: dagre puts them in rows, each box below all boxes that it depends on.

const GAP_X = 26;
const GAP_Y = 46;

// `nodes` have `width` and `height`; `edges` are pairs of indices. Sets `x` and `y` of the nodes, and returns the size
// of the whole and the path of each edge.
function layered(nodes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: GAP_X, ranksep: GAP_Y });
  nodes.forEach(({ width, height }, index) => graph.setNode(String(index), { width, height }));
  edges.forEach(([from, to]) => graph.setEdge(String(from), String(to), {}));
  dagre.layout(graph);
  // dagre gives the centre of a box, and its size of the graph leaves out lines that run outside of all boxes.
  const bendsOf = edges.map(([from, to]) => graph.edge(String(from), String(to)).points.slice(1, -1));
  const left = Math.min(0, ...bendsOf.flat().map((point) => point.x));
  nodes.forEach((node, index) => {
    const { x, y } = graph.node(String(index));
    Object.assign(node, { x: x - left - node.width / 2, y: y - node.height / 2 });
  });
  const width = Math.max(graph.graph().width, ...bendsOf.flat().map((point) => point.x)) - left;
  const { height } = graph.graph();
  const end = ({ x, y, width: wide, height: high }) => ({ x: x + wide / 2, y, height: high });
  const ways = edges.map(([from, to], index) => {
    const bends = bendsOf[index].map(({ x, y }) => ({ x: x - left, y, height: 0 }));
    return [end(nodes[from]), ...bends, end(nodes[to])];
  });
  return { width: Math.max(0, width), height: Math.max(0, height), ways };
}
