#include "graph/certificate.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb::graph {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kMethods = {"none", "a2q", "a2q_plus"};
constexpr std::array<std::string_view, 3> kPlaces = {"none", "inside", "after"};
constexpr std::uint64_t kMostTile = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostJsonBytes = std::uint64_t{1}
                                         << 30;  // a pair of numbers for each channel of each layer

Result<Json> parsed_json(std::string_view text) {
  return parse_bounded_json(std::as_bytes(std::span(text)),
                            {.max_bytes = kMostJsonBytes, .max_depth = 8, .max_token_bytes = 4096});
}

Json json_of(const Certificate& certificate) {
  Json worst = Json::array();
  for (const ChannelSums& channel : certificate.worst) {
    Json registers = Json::array();
    for (const WorstSums& sums : channel) registers.push_back({sums.max, sums.min});
    worst.push_back(std::move(registers));
  }
  return {{"method", name_of(certificate.method)},
          {"bits", certificate.bits},
          {"input", {certificate.input.low, certificate.input.high}},
          {"tile", certificate.tile},
          {"bias", name_of(certificate.bias)},
          {"rounding", certificate.rounding},
          {"constrained", certificate.constrained},
          {"worst", std::move(worst)}};
}

/// Reads the fields of one certificate, and remembers the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {
    if (!json.is_object()) fail("it is no JSON object");
  }

  const std::string& failure() const { return failure_; }

  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) {
    const Json* value = find(key);
    if (!value) return least;
    const auto number = integer_of(*value);
    if (!number || *number < least || *number > most) {
      wrong(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
      return least;
    }
    return *number;
  }

  bool boolean(const char* key) {
    const Json* value = find(key);
    if (value && !value->is_boolean()) wrong(key, "true or false");
    return value && value->is_boolean() && value->get<bool>();
  }

  std::string text(const char* key) {
    const Json* value = find(key);
    if (value && !value->is_string()) wrong(key, "a text");
    return value && value->is_string() ? value->get<std::string>() : std::string();
  }

  template <class Enum, std::size_t Count>
  Enum choice(const char* key, const std::array<std::string_view, Count>& names) {
    const std::string found = text(key);
    const auto at = std::ranges::find(names, found);
    if (at != names.end()) return static_cast<Enum>(at - names.begin());
    std::string all;
    for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    wrong(key, "one of " + all);
    return {};
  }

  IntegerRange range(const char* key) {
    const Json* value = find(key);
    const auto pair = value ? pair_of(*value) : std::nullopt;
    if (!pair || pair->first > pair->second) {
      wrong(key, "two integers, the lower first");
      return {};
    }
    return {pair->first, pair->second};
  }

  std::vector<ChannelSums> sums(const char* key) {
    std::vector<ChannelSums> all;
    const Json* value = find(key);
    if (!value || !value->is_array()) return wrong(key, "a list of channels"), all;
    for (const Json& channel : *value) {
      if (!channel.is_array()) return wrong(key, "a list of registers for each channel"), all;
      ChannelSums& registers = all.emplace_back();
      for (const Json& one : channel) {
        const auto pair = pair_of(one);
        if (!pair || pair->first < 0 || pair->second > 0) {
          return wrong(key, "for each register its largest sum, at least 0, and its least, at most 0"), all;
        }
        registers.push_back({.max = pair->first, .min = pair->second});
      }
    }
    return all;
  }

 private:
  static std::optional<std::int64_t> integer_of(const Json& value) {
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      return number <= INT64_MAX ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
    }
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  }

  static std::optional<std::pair<std::int64_t, std::int64_t>> pair_of(const Json& value) {
    if (!value.is_array() || value.size() != 2) return {};
    const auto first = integer_of(value[0]), second = integer_of(value[1]);
    return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
  }

  const Json* find(const char* key) {
    if (!json_.is_object()) return nullptr;
    const auto at = json_.find(key);
    if (at == json_.end()) fail("it has no field \"" + std::string(key) + "\"");
    return at == json_.end() ? nullptr : &*at;
  }

  void wrong(const char* key, const std::string& expected) {
    const auto at = json_.is_object() ? json_.find(key) : json_.end();
    if (at == json_.end()) return;
    std::string found = std::string("a JSON ") + at->type_name();
    if (at->is_string()) found = quote_text(at->get_ref<const std::string&>());
    if (at->is_number()) found = at->dump();
    fail("\"" + std::string(key) + "\" is " + found + ", expected " + expected);
  }

  void fail(std::string text) {
    if (failure_.empty()) failure_ = std::move(text);
  }

  const Json& json_;
  std::string failure_;
};

Result<Certificate> certificate_from(const Json& json) {
  Fields fields(json);
  Certificate made{.method = fields.choice<AccumulatorMethod>("method", kMethods),
                   .bits = static_cast<int>(fields.integer("bits", 1, 64)),
                   .input = fields.range("input"),
                   .tile = static_cast<std::size_t>(fields.integer("tile", 0, kMostTile)),
                   .bias = fields.choice<BiasPlace>("bias", kPlaces),
                   .rounding = fields.text("rounding"),
                   .constrained = fields.boolean("constrained"),
                   .worst = fields.sums("worst")};
  if (!fields.failure().empty()) return Failure{fields.failure()};
  return made;
}

}  // namespace

std::string_view name_of(AccumulatorMethod method) { return kMethods[static_cast<std::size_t>(method)]; }
std::string_view name_of(BiasPlace place) { return kPlaces[static_cast<std::size_t>(place)]; }

std::string to_text(const Certificate& certificate) {
  return json_of(certificate).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Certificate> parse_certificate(std::string_view text) {
  const auto json = parsed_json(text);
  if (!json.ok()) return json.failure();
  return certificate_from(json.value());
}

Result<std::optional<Certificate>> certificate_of(const Node& node) {
  const auto found = node.metadata.find(kAccumulatorKey);
  if (found == node.metadata.end()) return std::optional<Certificate>();
  auto certificate = parse_certificate(found->second);
  if (!certificate.ok())
    return Failure{text_of(node) + ": its certificate cannot be read: " + certificate.failure().message};
  return std::optional(certificate.take());
}

void set_certificate(Node& node, const Certificate& certificate) {
  node.metadata[kAccumulatorKey] = to_text(certificate);
}

std::optional<std::string> certificates_text(const Graph& graph) {
  std::map<std::string, std::string> entries;
  if (const auto left = graph.metadata.find(kAccumulatorKey); left != graph.metadata.end()) {
    const auto json = parsed_json(left->second);
    if (!json.ok() || !json.value().is_object()) return left->second;  // not ours to change
    for (const auto& [name, entry] : json.value().items()) entries[name] = entry.dump();
  }
  std::set<std::string> named;
  for (const Node& node : graph.nodes) {
    const auto found = node.metadata.find(kAccumulatorKey);
    if (found == node.metadata.end()) continue;
    if (!named.insert(node.name).second) {
      throw Error("two nodes with a certificate of their accumulator are called " + quote_text(node.name));
    }
    entries[node.name] = found->second;
  }
  if (entries.empty()) return {};
  std::string text;
  for (const auto& [name, entry] : entries) {
    text +=
        (text.empty() ? "{" : ",") + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) + ":";
    text += entry;
  }
  return text + "}";
}

Status place_certificates(Graph& graph) {
  const auto entry = graph.metadata.find(kAccumulatorKey);
  if (entry == graph.metadata.end()) return {};
  const auto wrong = [](const std::string& what) {
    return Failure{std::string("the metadata's entry ") + kAccumulatorKey + ": " + what};
  };
  const auto json = parsed_json(entry->second);
  if (!json.ok()) return wrong(json.failure().message);
  if (!json.value().is_object()) return wrong("it is no JSON object by the names of nodes");
  std::map<std::string, std::vector<Node*>> nodes;
  for (Node& node : graph.nodes) nodes[node.name].push_back(&node);
  Json left = Json::object();
  for (const auto& [name, one] : json.value().items()) {
    const auto certificate = certificate_from(one);
    if (!certificate.ok()) return wrong("node " + quote_text(name) + ": " + certificate.failure().message);
    const auto found = nodes.find(name);
    if (found != nodes.end() && found->second.size() == 1) {
      set_certificate(*found->second[0], certificate.value());
    } else {
      left[name] = json_of(certificate.value());
    }
  }
  graph.metadata.erase(entry);
  if (!left.empty()) graph.metadata[kAccumulatorKey] = left.dump();
  return {};
}

void drop_certificates(Graph& graph) {
  graph.metadata.erase(kAccumulatorKey);
  for (Node& node : graph.nodes) node.metadata.erase(kAccumulatorKey);
}

}  // namespace crumb::graph
