// Drawings: that boxes never overlap and pictures say what is there. Well-formed XML is checked in test_cli_inspect_graph.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "analysis/draw/layout.h"
#include "analysis/draw/picture.h"
#include "analysis/draw/svg.h"
#include "analysis/draw/text.h"

namespace crumb::analysis {
namespace {

struct Random {
  std::mt19937 engine;
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine); }
};

bool overlap(const Layout& layout, const std::vector<LayoutItem>& items, std::size_t a, std::size_t b) {
  const auto apart = [](double a0, double a1, double b0, double b1) { return a1 <= b0 || b1 <= a0; };
  const Point p = layout.corners[a], q = layout.corners[b];
  return !apart(p.x, p.x + items[a].width, q.x, q.x + items[b].width) &&
         !apart(p.y, p.y + items[a].height, q.y, q.y + items[b].height);
}

void check_layout(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges) {
  const Layout layout = lay_out(items, edges);
  REQUIRE(layout.corners.size() == items.size());
  REQUIRE(layout.routes.size() == edges.size());
  for (std::size_t a = 0; a < items.size(); ++a) {
    CHECK(layout.corners[a].x >= -0.1);
    CHECK(layout.corners[a].x + items[a].width <= layout.width + 0.1);
    CHECK(layout.corners[a].y + items[a].height <= layout.height + 0.1);
    for (std::size_t b = 0; b < a; ++b) REQUIRE_FALSE(overlap(layout, items, a, b));
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto& route = layout.routes[i];
    REQUIRE(route.size() >= 4);
    REQUIRE(route.size() % 2 == 0);
    const Point from = layout.corners[edges[i].from], to = layout.corners[edges[i].to];
    CHECK(route.front().y == doctest::Approx(from.y + items[edges[i].from].height));
    CHECK(route.back().y == doctest::Approx(to.y));
    CHECK(route.front().x >= from.x);
    CHECK(route.front().x <= from.x + items[edges[i].from].width);
    CHECK(route.back().x >= to.x);
    CHECK(route.back().x <= to.x + items[edges[i].to].width);
    for (std::size_t k = 1; k < route.size(); ++k) CHECK(route[k].y >= route[k - 1].y);
  }
}

TEST_CASE("boxes of random graphs never overlap, and lines go down from box to box") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random{std::mt19937(seed)};
    std::vector<LayoutItem> items(1 + random.below(60));
    for (LayoutItem& item : items) {
      item.width = 20 + static_cast<double>(random.below(300));
      item.height = 10 + static_cast<double>(random.below(120));
    }
    std::vector<LayoutEdge> edges;
    for (std::size_t i = 0; items.size() > 1 && i < 2 * items.size(); ++i) {
      const std::size_t to = 1 + random.below(items.size() - 1);
      edges.push_back({random.below(to), to});
    }
    CAPTURE(seed);
    check_layout(items, edges);
  }
  check_layout({}, {});
  check_layout({{10, 10}}, {});
}

TEST_CASE("a graph with too many long lines is laid out all the same") {
  std::vector<LayoutItem> items(1200, {40, 20});
  std::vector<LayoutEdge> edges;
  for (std::size_t i = 1; i < items.size(); ++i) {
    edges.push_back({i - 1, i});
    edges.push_back({0, i});
  }
  const Layout layout = lay_out(items, edges);
  CHECK(layout.corners[5].y < layout.corners[6].y);
}

graph::Value floats(std::vector<std::int64_t> shape) {
  return {.type = graph::ElementType::kFloat, .shape = graph::Shape(shape.begin(), shape.end())};
}

/// x -> Relu a -> Quant -> {MatMul w, Neg} -> Add -> y
graph::Graph branched(const std::string& name = "neg") {
  graph::Graph graph{
      .inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}, {std::string(graph::kQonnxDomain), 1}}};
  const auto add = [&](const char* op, const std::string& node, std::vector<std::string> in, const char* out,
                       std::string_view domain = graph::kOnnxDomain) {
    graph.nodes.push_back({.name = node,
                           .op = op,
                           .domain = std::string(domain),
                           .version = domain.empty() ? 13 : 1,
                           .inputs = std::move(in),
                           .outputs = {out}});
  };
  const auto constant = [&](const char* value, graph::Tensor tensor) {
    graph.values[value] = floats(tensor.shape());
    graph.initializers[value] = std::move(tensor);
  };
  constant("s", graph::Tensor::scalar(0.5F));
  constant("z", graph::Tensor::scalar(0.0F));
  constant("b", graph::Tensor::scalar(2.0F));
  constant("w0", graph::Tensor::floats({2, 2}, std::vector<float>{1, 0, -1, 2}));
  for (const char* value : {"x", "a", "c", "q", "w", "m", "n", "y"}) graph.values[value] = floats({2, 2});
  add("Relu", "relu", {"x"}, "a");
  add("Exp", "exp", {"a"}, "c");
  add("Quant", "quant", {"c", "s", "z", "b"}, "q", graph::kQonnxDomain);
  add("Quant", "weight_quant", {"w0", "s", "z", "b"}, "w", graph::kQonnxDomain);
  add("MatMul", "matmul", {"q", "w"}, "m");
  add("Neg", name, {"q"}, "n");
  add("Add", "add", {"m", "n"}, "y");
  return graph;
}

TEST_CASE("quantizers are on wires, constants in boxes, chains in one box") {
  const Picture picture = picture_of(branched());
  REQUIRE(picture.boxes.size() == 6);  // x, Relu Exp, MatMul, Neg, Add, y
  CHECK(picture.boxes[1].steps.size() == 2);
  CHECK(picture.boxes[2].steps[0].parameters == std::vector<std::string>{"[2, 2] Quant int2"});
  const auto wire = std::ranges::find_if(picture.wires, [](const Wire& w) { return !w.quantizers.empty(); });
  REQUIRE(wire != picture.wires.end());
  CHECK(wire->quantizers[0].text == "Quant int2");
  CHECK(wire->quantizers[0].bits == 2);
  CHECK(wire->to == std::vector<std::size_t>{2, 3});
  for (const Wire& w : picture.wires) {
    for (const std::size_t to : w.to) CHECK(w.from < to);
  }
}

TEST_CASE("the text shows boxes, lanes and quantizers") {
  CHECK(draw_text(picture_of(branched())) ==
        "● input  x\n"
        "│ [2, 2]\n"
        "● Relu  relu\n"
        "┃ Exp  exp\n"
        "│ -> Quant int2 -> [2, 2]  (used 2 times)\n"
        "├─╮\n"
        "│ ● MatMul  matmul  [2, 2] Quant int2\n"
        "│ │ [2, 2]\n"
        "● │ Neg  neg\n"
        "│ │ [2, 2]\n"
        "├─╯\n"
        "● Add  add\n"
        "│ [2, 2]\n"
        "● output  y\n");
}

TEST_CASE("long chains are folded") {
  graph::Graph graph{.inputs = {"v0"}, .outputs = {"v40"}, .opsets = {{"", 13}}};
  for (int i = 0; i < 40; ++i) {
    graph.nodes.push_back({.name = "n" + std::to_string(i),
                           .op = "Relu",
                           .version = 13,
                           .inputs = {"v" + std::to_string(i)},
                           .outputs = {"v" + std::to_string(i + 1)}});
  }
  const Picture picture = picture_of(graph);
  REQUIRE(picture.boxes.size() == 3);
  CHECK(picture.boxes[1].steps.size() == Box::kHead + Box::kTail);
  CHECK(picture.boxes[1].left_out == 40 - Box::kHead - Box::kTail);
  CHECK(picture.boxes[1].steps.back().name == "n39");
  CHECK(draw_text(picture).find("… 31 more") != std::string::npos);
}

TEST_CASE("an SVG is the same every time, escapes names, and has a legend of its bits") {
  const std::string svg = draw_svg(picture_of(branched("<script>&\"\n\xff")), "a < b");
  CHECK(svg == draw_svg(picture_of(branched("<script>&\"\n\xff")), "a < b"));
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("&lt;script&gt;&amp;&quot;\\x0a\\xff") != std::string::npos);
  CHECK(svg.find("<title>a &lt; b</title>") != std::string::npos);
  CHECK(svg.find(">2 bits</text>") != std::string::npos);
  CHECK(svg.find(">8 bits</text>") == std::string::npos);
  CHECK(svg.find("http://") == svg.find("http://www.w3.org/2000/svg"));  // nothing is fetched
}

TEST_CASE("a scene's items are wide enough to hold their wires apart") {
  const Scene scene = scene_of(picture_of(branched()));
  check_layout(scene.items, scene.edges);
}

}  // namespace
}  // namespace crumb::analysis
