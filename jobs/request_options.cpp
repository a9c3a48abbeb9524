#include "jobs/request_options.h"

#include <array>
#include <limits>
#include <span>

#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/text/nearest_name.h"

namespace crumb::jobs {
namespace {

using Value = nlohmann::json;

[[noreturn]] void refuse(const char* expected) { throw usage_error(std::string("expected ") + expected); }

std::string text_in(const Value& value) {
  if (!value.is_string()) refuse("a text");
  return value.get<std::string>();
}

bool flag_in(const Value& value) {
  if (!value.is_boolean()) refuse("true or false");
  return value.get<bool>();
}

template <class T>
T count_in(const Value& value) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) refuse("a whole number, 0 or more");
  return static_cast<T>(value.get<std::uint64_t>());
}

const Value& list_in(const Value& value) {
  if (!value.is_array()) refuse("a list");
  return value;
}

QuantizeRequest::As as_in(const Value& value) {
  const std::string text = text_in(value);
  if (text == "tensors") return QuantizeRequest::As::kTensors;
  if (text == "network") return QuantizeRequest::As::kNetwork;
  refuse("\"tensors\" or \"network\"");
}

std::map<std::string, std::vector<std::int64_t>> shapes_in(const Value& value) {
  if (!value.is_object()) refuse("an object, as in {\"x\": [1, 3, 32, 32]}");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, sizes] : value.items()) {
    std::vector<std::int64_t>& shape = shapes[name];
    for (const Value& size : list_in(sizes)) shape.push_back(count_in<std::int64_t>(size));
  }
  return shapes;
}

struct Option {
  std::string_view name;
  void (*set)(QuantizeRequest& request, const Value& value);
};

constexpr std::array kOptions{
    Option{"as", [](QuantizeRequest& request, const Value& value) { request.as = as_in(value); }},
    Option{"key", [](QuantizeRequest& request, const Value& value) { request.key = text_in(value); }},
    Option{"data",
           [](QuantizeRequest& request, const Value& value) {
             for (const Value& path : list_in(value)) request.data.push_back(text_in(path));
           }},
    Option{"arguments",
           [](QuantizeRequest& request, const Value& value) {
             for (const Value& argument : list_in(value)) request.arguments.push_back(text_in(argument));
           }},
    Option{"batch_axes",
           [](QuantizeRequest& request, const Value& value) {
             for (const Value& axis : list_in(value)) request.batch_axes.push_back(text_in(axis));
           }},
    Option{"tokens", [](QuantizeRequest& request,
                        const Value& value) { request.tokens = count_in<std::size_t>(value); }},
    Option{"pairs", [](QuantizeRequest& request, const Value& value) { request.pairs = flag_in(value); }},
    Option{"device", [](QuantizeRequest& request, const Value& value) { request.device = text_in(value); }},
    Option{"to", [](QuantizeRequest& request,
                    const Value& value) { request.form = exporting::form_named(text_in(value)); }},
    Option{"profile",
           [](QuantizeRequest& request, const Value& value) {
             request.profile = exporting::qonnx_profile_named(text_in(value));
           }},
    Option{"opset", [](QuantizeRequest& request,
                       const Value& value) { request.opset = count_in<std::int64_t>(value); }},
    Option{"shapes", [](QuantizeRequest& request, const Value& value) { request.shapes = shapes_in(value); }},
    Option{"threads",
           [](QuantizeRequest& request, const Value& value) { request.threads = count_in<int>(value); }},
    Option{"memory", [](QuantizeRequest& request,
                        const Value& value) { request.memory = count_in<std::uint64_t>(value); }},
    Option{"dry_run", [](QuantizeRequest& request, const Value& value) { request.dry_run = flag_in(value); }},
    Option{"resume", [](QuantizeRequest& request, const Value& value) { request.resume = flag_in(value); }},
};

}  // namespace

void read_options(std::string_view json, QuantizeRequest& request) {
  const Result<Value> options = parse_bounded_json(std::as_bytes(std::span(json)));
  if (!options.ok()) throw usage_error("the options: " + options.failure().message);
  if (!options.value().is_object()) throw usage_error("the options: expected a JSON object");
  for (const auto& [name, value] : options.value().items()) {
    std::vector<std::string_view> names;
    const Option* found = nullptr;
    for (const Option& option : kOptions) {
      names.push_back(option.name);
      if (option.name == name) found = &option;
    }
    if (!found) throw usage_error("the options: " + unknown_name("key", printable(name), names));
    try {
      found->set(request, value);
    } catch (const Error& error) {
      throw usage_error("the options: " + name + ": " + error.what());
    }
  }
}

}  // namespace crumb::jobs
