// Arrays without elements may have other sizes of up to 2^62, and whoever reads a shape from numbers may be given any: every
// operator ends, by an output or an Error, within its limits. (Sanitizers see to the arithmetic.)
#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/meter.h"
#include "runtime/model.h"
#include "runtime/operator.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;

constexpr std::int64_t kSizes[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   65536,
                                   std::int64_t{1} << 31,
                                   (std::int64_t{1} << 32) - 1,
                                   std::int64_t{1} << 61,
                                   std::int64_t{1} << 62};
constexpr std::int64_t kNumbers[] = {0, 1, 2, 3, -1, -2, INT64_MIN, INT64_MAX, std::int64_t{1} << 62, 65536};

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }

  /// Without elements, or few of them.
  Array array() {
    Ints shape(below(6));
    const bool is_small = below(3) == 0;
    for (std::int64_t& size : shape) size = kSizes[below(is_small ? 4 : std::size(kSizes))];
    if (!is_small && !shape.empty()) shape[below(shape.size())] = 0;
    if (!graph::count_elements(shape).ok()) shape.assign(3, 0);  // there is no such array
    static constexpr ElementType kTypes[] = {ElementType::kFloat, ElementType::kFloat, ElementType::kInt64,
                                             ElementType::kUint8, ElementType::kBool};
    Array made(kTypes[below(std::size(kTypes))], shape);
    if (made.bytes() > 0) std::memset(made.writable_data(), 1, made.bytes());
    if (made.carrier() == Carrier::kInt64) {
      for (std::int64_t& x : made.writable<std::int64_t>()) x = kNumbers[below(std::size(kNumbers))];
    } else if (made.carrier() == Carrier::kFloat) {
      for (float& x : made.writable<float>()) x = static_cast<float>(below(5)) - 2;
    }
    return made;
  }
  Array numbers() {
    Ints made(below(5));
    for (std::int64_t& x : made) x = kNumbers[below(std::size(kNumbers))];
    return Array::ints(made);
  }

  std::map<std::string, graph::Attribute> attributes() {
    std::map<std::string, graph::Attribute> made;
    for (const char* name :
         {"axis", "keepdims", "group", "num_outputs", "blocksize", "num_heads", "q_num_heads", "kv_num_heads",
          "rotary_embedding_dim", "to", "ceil_mode", "transA", "transB", "hidden_size", "batch_dims",
          "exclusive", "allowzero", "noop_with_empty_axes"}) {
      if (below(3) == 0)
        made[name] = std::string(name) == "to" ? std::int64_t{1} : kNumbers[below(std::size(kNumbers))];
    }
    for (const char* name :
         {"kernel_shape", "strides", "dilations", "pads", "perm", "output_shape", "output_padding"}) {
      if (below(4) != 0) continue;
      Ints values(below(7));
      for (std::int64_t& x : values)
        x = below(2) == 0 ? static_cast<std::int64_t>(below(4)) : kNumbers[below(std::size(kNumbers))];
      made[name] = values;
    }
    static constexpr const char* kEquations[] = {"ij,jk->ik", "abc,cd", "...i,...i->...", "ii->i", "a,b->ab"};
    made["equation"] = std::string(kEquations[below(std::size(kEquations))]);
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

TEST_CASE("every operator ends on hostile shapes and numbers") {
  Drawer draw(17);
  std::size_t outputs = 0;
  for (const OperatorRow& row : all_operators()) {
    CAPTURE(row.op);
    for (int round = 0; round < 150; ++round) {
      CAPTURE(round);
      graph::Graph graph;
      graph::Node node{.name = "n",
                       .op = std::string(row.op),
                       .domain = std::string(row.domain),
                       .version = row.domain.empty() ? 24 : 1,
                       .inputs = {},
                       .outputs = {"y"},
                       .attributes = draw.attributes()};
      std::vector<Array> inputs;
      for (std::size_t i = 0, count = draw.below(5); i < count; ++i) {
        inputs.push_back(i > 0 && draw.below(2) == 0 ? draw.numbers() : draw.array());
        node.inputs.push_back(graph.inputs.emplace_back("x" + std::to_string(i)));
      }
      graph.nodes = {node};
      graph.outputs = {"y"};
      try {
        const MeterScope scope(std::make_shared<Meter>(Limits{.memory = 1 << 24, .work = 1 << 22}));
        outputs += Model(graph).run(inputs, {.threads = 1}).size();
      } catch (const Error& error) {
        REQUIRE(error.what()[0] != '\0');
      }
    }
  }
  CHECK(outputs > 1000);  // enough of them are asked something that has an answer
}

}  // namespace
}  // namespace crumb::runtime
