#include "formats/onnx/model.h"

#include <bit>
#include <cstring>

#include "base/files/text.h"

namespace crumb {
namespace {

/// Walks a model. A step that fails keeps the failure and answers false.
class Parser {
 public:
  explicit Parser(std::span<const std::byte> file) : file_(file) {}

  Result<OnnxModel> run() {
    OnnxModel model;
    bool has_graph = false;
    const bool read = each({0, file_.size()}, [&](const WireField& field) {
      if (field.is(7)) {
        if (has_graph) return fail("it holds two graphs");
        has_graph = true;
        return graph(field.payload, model.graph);
      }
      if (field.is(8)) return opset(field.payload, model.opsets.emplace_back());
      if (field.is(14)) return entry(field.payload, model.metadata.emplace_back());
      if (field.is(20)) model.has_training = true;
      if (field.is(25)) ++model.functions;
      return true;
    });
    if (read && !has_graph) fail("it holds no graph");
    if (!failure_.empty()) return Failure{failure_};
    return model;
  }

  Result<OnnxGraph> run(const WireExtent& message) {
    OnnxGraph made;
    if (!graph(message, made)) return Failure{failure_};
    return made;
  }

 private:
  bool fail(std::string message) {
    failure_ = std::move(message);
    return false;
  }

  /// Calls take(field) for every field, until one answers false.
  template <class Take>
  bool each(const WireExtent& message, const Take& take) {
    WireReader reader(file_, message);
    for (WireField field; reader.next(field);) {
      if (!take(field)) return false;
    }
    return reader.status().ok() || fail(reader.status().failure().message);
  }

  std::string_view text(const WireField& field) const { return wire_text(file_, field.payload); }

  float float_at(std::uint64_t at) const {
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(file_[at + i]);
    return std::bit_cast<float>(bits);
  }

  bool opset(const WireExtent& message, OnnxOpset& opset) {
    return each(message, [&](const WireField& field) {
      if (field.is(1)) opset.domain = text(field);
      if (field.is(2, WireType::kVarint)) opset.version = static_cast<std::int64_t>(field.varint);
      return true;
    });
  }

  bool entry(const WireExtent& message, OnnxEntry& entry) {
    return each(message, [&](const WireField& field) {
      if (field.is(1)) entry.key = text(field);
      if (field.is(2)) entry.value = text(field);
      return true;
    });
  }

  bool graph(const WireExtent& message, OnnxGraph& graph) {
    return each(message, [&](const WireField& field) {
      if (field.type != WireType::kBytes) return true;
      switch (field.number) {
        case 1: return node(field.payload, graph.nodes.emplace_back());
        case 2: graph.name = text(field); return true;
        case 5: graph.initializers.push_back(field.payload); return true;
        case 11: return value(field.payload, graph.inputs.emplace_back());
        case 12: return value(field.payload, graph.outputs.emplace_back());
        case 13: return value(field.payload, graph.values.emplace_back());
        case 14: return annotation(field.payload, graph.annotations.emplace_back());
        case 15: graph.sparse_initializers.push_back(field.payload); return true;
        default: return true;
      }
    });
  }

  bool annotation(const WireExtent& message, OnnxAnnotation& annotation) {
    return each(message, [&](const WireField& field) {
      if (field.is(1)) annotation.tensor = text(field);
      return !field.is(2) || entry(field.payload, annotation.entries.emplace_back());
    });
  }

  bool node(const WireExtent& message, OnnxNode& node) {
    return each(message, [&](const WireField& field) {
      if (field.type != WireType::kBytes) return true;
      switch (field.number) {
        case 1: node.inputs.push_back(text(field)); return true;
        case 2: node.outputs.push_back(text(field)); return true;
        case 3: node.name = text(field); return true;
        case 4: node.op = text(field); return true;
        case 5: return attribute(field.payload, node.attributes.emplace_back());
        case 7: node.domain = text(field); return true;
        default: return true;
      }
    });
  }

  bool attribute(const WireExtent& message, OnnxAttribute& attribute) {
    using Type = OnnxAttributeType;
    Type found = Type::kUndefined;  // the first in ONNX's order of what there is
    const auto see = [&](Type type) {
      if (found == Type::kUndefined || type < found) found = type;
    };
    bool has_tensor = false, has_graph = false;
    const bool read = each(message, [&](const WireField& field) {
      if (field.is(1)) attribute.name = text(field);
      if (field.is(20, WireType::kVarint)) attribute.type = static_cast<Type>(field.varint);
      if (field.is(2, WireType::kFixed32)) {
        attribute.number = float_at(field.payload.begin);
        see(Type::kFloat);
      } else if (field.is(3, WireType::kVarint)) {
        attribute.integer = static_cast<std::int64_t>(field.varint);
        see(Type::kInt);
      } else if (field.is(4)) {
        attribute.text = text(field);
        see(Type::kString);
      } else if (field.is(5)) {
        if (has_tensor) return fail("attribute " + quote_text(attribute.name) + " holds two tensors");
        has_tensor = true;
        attribute.tensor = field.payload;
        see(Type::kTensor);
      } else if (field.is(6)) {
        if (has_graph) return fail("attribute " + quote_text(attribute.name) + " holds two graphs");
        has_graph = true;
        attribute.graph = field.payload;
        see(Type::kGraph);
      } else if (field.is(7) || field.is(7, WireType::kFixed32)) {
        see(Type::kFloats);
        return floats(field, attribute.numbers);
      } else if (field.is(8) || field.is(8, WireType::kVarint)) {
        see(Type::kInts);
        return integers(field, attribute.integers);
      } else if (field.is(9)) {
        see(Type::kStrings);
        attribute.texts.push_back(text(field));
      }
      return true;
    });
    if (attribute.type == Type::kUndefined) attribute.type = found;
    return read;
  }

  bool floats(const WireField& field, std::vector<float>& numbers) {
    if (field.payload.size % 4 != 0)
      return fail("damaged at byte " + std::to_string(field.payload.begin) + ": a list of floats takes " +
                  byte_text(field.payload.size) + ", expected a multiple of 4");
    for (std::uint64_t at = 0; at < field.payload.size; at += 4)
      numbers.push_back(float_at(field.payload.begin + at));
    return true;
  }

  bool integers(const WireField& field, std::vector<std::int64_t>& numbers) {
    std::uint64_t at = field.payload.begin;
    const std::uint64_t end = at + field.payload.size;
    while (at < end) {
      std::uint64_t number = 0;
      if (!read_wire_varint(file_, at, end, number))
        return fail("damaged at byte " + std::to_string(at) + ": a list ends inside a number");
      numbers.push_back(static_cast<std::int64_t>(number));
    }
    return true;
  }

  bool value(const WireExtent& message, OnnxValueInfo& value) {
    bool has_type = false;
    return each(message, [&](const WireField& field) {
      if (field.is(1)) value.name = text(field);
      if (!field.is(2)) return true;
      if (has_type) return fail("value " + quote_text(value.name) + " has two types");
      has_type = true;
      return type(field.payload, value);
    });
  }

  bool type(const WireExtent& message, OnnxValueInfo& value) {
    using Kind = OnnxValueInfo::Kind;
    return each(message, [&](const WireField& field) {
      if (field.is(4) || field.is(5) || field.is(7) || field.is(8) || field.is(9)) value.kind = Kind::kOther;
      if (!field.is(1)) return true;
      if (value.kind == Kind::kTensor) return fail("value " + quote_text(value.name) + " has two types");
      value.kind = Kind::kTensor;
      return tensor_type(field.payload, value);
    });
  }

  bool tensor_type(const WireExtent& message, OnnxValueInfo& value) {
    return each(message, [&](const WireField& field) {
      if (field.is(1, WireType::kVarint)) value.element_type = static_cast<std::int32_t>(field.varint);
      if (!field.is(2)) return true;
      if (value.shape) return fail("value " + quote_text(value.name) + " has two shapes");
      value.shape.emplace();
      return each(field.payload, [&](const WireField& dim) {
        return !dim.is(1) || this->dim(dim.payload, value.shape->emplace_back());
      });
    });
  }

  bool dim(const WireExtent& message, OnnxDim& dim) {
    return each(message, [&](const WireField& field) {
      if (field.is(1, WireType::kVarint)) {
        dim = {.size = static_cast<std::int64_t>(field.varint), .name = {}};
      } else if (field.is(2)) {
        dim = {.size = {}, .name = text(field)};
      }
      return true;
    });
  }

  std::span<const std::byte> file_;
  std::string failure_;
};

}  // namespace

Result<OnnxModel> parse_onnx_model(std::span<const std::byte> file) { return Parser(file).run(); }

Result<OnnxGraph> parse_onnx_graph(std::span<const std::byte> file, const WireExtent& message) {
  return Parser(file).run(message);
}

}  // namespace crumb
