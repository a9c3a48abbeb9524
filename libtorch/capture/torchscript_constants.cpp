#include "libtorch/capture/torchscript_constants.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"

namespace crumb::libtorch {
namespace {

using c10::IValue;
using c10::TypeKind;

std::vector<std::string> between_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<bool> parse_bool(const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  return std::nullopt;
}

/// Returns the value, or nothing where the text is none of the type.
std::optional<IValue> parse(const c10::Type& type, const std::string& text) {
  const auto value = [](const auto& parsed) {
    return parsed ? std::optional<IValue>(*parsed) : std::nullopt;
  };
  switch (type.kind()) {
    case TypeKind::IntType: return value(parse_number<std::int64_t>(text));
    case TypeKind::FloatType: return value(parse_number<double>(text));
    case TypeKind::BoolType: return value(parse_bool(text));
    case TypeKind::StringType: return IValue(text);
    case TypeKind::OptionalType:
      if (text == "none" || text == "None") return IValue();
      return parse(*type.expectRef<c10::OptionalType>().getElementType(), text);
    case TypeKind::ListType: {
      const c10::TypePtr element = type.expectRef<c10::ListType>().getElementType();
      c10::impl::GenericList list(element);
      for (const std::string& part : between_commas(text)) {
        const std::optional<IValue> one = parse(*element, part);
        if (!one) return std::nullopt;
        list.push_back(*one);
      }
      return IValue(list);
    }
    default: return std::nullopt;
  }
}

/// Returns what a text of the type looks like; "" for a type that has no text.
std::string form_of(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::IntType: return "a whole number";
    case TypeKind::FloatType: return "a number";
    case TypeKind::BoolType: return "true or false";
    case TypeKind::StringType: return "text";
    case TypeKind::OptionalType: {
      const std::string form = form_of(*type.expectRef<c10::OptionalType>().getElementType());
      return form.empty() ? "none" : form + ", or none";
    }
    case TypeKind::ListType: {
      const c10::TypePtr element = type.expectRef<c10::ListType>().getElementType();
      const bool is_simple = element->kind() == TypeKind::IntType || element->kind() == TypeKind::FloatType ||
                             element->kind() == TypeKind::BoolType;
      return is_simple ? "several between commas, each " + form_of(*element) : "";
    }
    default: return "";
  }
}

}  // namespace

torch::jit::Kwargs torchscript_constants(const std::vector<c10::Argument>& arguments,
                                         const std::map<std::string, std::string>& constants) {
  torch::jit::Kwargs values;
  for (const auto& [name, text] : constants) {
    const auto found = std::find_if(arguments.begin() + 1, arguments.end(),
                                    [&](const c10::Argument& one) { return one.name() == name; });
    if (found == arguments.end()) {
      std::vector<std::string> names;
      for (std::size_t i = 1; i < arguments.size(); ++i) names.push_back(arguments[i].name());
      throw usage_error(unknown_name("argument of forward()", name, names));
    }
    const c10::Type& type = *found->type();
    const std::string what = "forward() takes " + quote_text(name) + " of type " + type.annotation_str();
    const std::string form = form_of(type);
    if (form.empty()) throw usage_error(what + ", which is given as no constant");
    const std::optional<IValue> value = parse(type, text);
    if (!value) throw usage_error(what + ": expected " + form + ", found " + quote_text(text));
    values[name] = *value;
  }
  return values;
}

}  // namespace crumb::libtorch
