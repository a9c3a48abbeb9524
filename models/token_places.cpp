#include "models/token_places.h"

namespace crumb::models {
namespace {

std::string cast(LayerBuilder& build, const std::string& name, const std::string& x,
                 graph::ElementType type) {
  return build.node("Cast", name, {x}, {{"to", static_cast<std::int64_t>(graph::onnx_number(type))}});
}

}  // namespace

std::string token_mask(LayerBuilder& build) {
  const std::string tokens =
      cast(build, "attention_mask.tokens", "attention_mask", graph::ElementType::kBool);
  return build.node("Unsqueeze", "attention_mask.wide", {tokens, build.ints("head_axes", {1, 2})});
}

TokenPlaces token_places(LayerBuilder& build) {
  TokenPlaces made;
  const std::string one = build.scalar("step_1", 1), along = build.scalar("along", 1);
  const std::string shape = build.node("Shape", "places_of_text.shape", {"input_ids"});
  const std::string length = build.node("Gather", "places_of_text", {shape, along});
  made.keys = build.node("Range", "places", {build.scalar("place_0", 0), length, one});
  made.queries =
      build.node("Unsqueeze", "places_of_queries.column", {made.keys, build.ints("column_axis", {1})});
  made.tokens = token_mask(build);
  const std::string counts = build.node("CumSum", "tokens_so_far", {"attention_mask", along});
  made.positions = build.node("Sub", "positions_of_tokens", {counts, one});
  return made;
}

std::string positions_column(LayerBuilder& build, const std::string& positions) {
  const std::string floats = cast(build, "positions", positions, graph::ElementType::kFloat);
  return build.node("Unsqueeze", "positions.column", {floats, build.ints("last_axis", {2})});
}

RotationTable rotation_table(LayerBuilder& build, const std::string& name, const std::string& column,
                             const std::string& frequencies, float factor) {
  const std::string angles = build.node("Mul", name + ".angles", {column, frequencies});
  const auto table = [&](const char* op, const char* part) {
    const std::string made = build.node(op, name + part, {angles});
    if (factor == 1) return made;
    return build.node("Mul", name + part + ".scaled", {made, build.floats("rotation_factor", factor)});
  };
  std::string cosine = table("Cos", ".cos");
  return {std::move(cosine), table("Sin", ".sin")};
}

}  // namespace crumb::models
