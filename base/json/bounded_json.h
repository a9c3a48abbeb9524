// Parses JSON from outside within bounds on memory and depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace crumb {

struct JsonLimits {
  /// The most memory of the parsed document and its parsing together, as estimated from its values.
  std::uint64_t max_bytes = std::uint64_t{40} << 20;
  /// The most arrays and objects inside each other.
  unsigned max_depth = 32;
  /// The most bytes of one string or number in the source text (the parser copies a token while it reads it).
  std::uint64_t max_token_bytes = std::uint64_t{4} << 20;
};

/// Parses one whole JSON text (RFC 8259, UTF-8, white space around it allowed). Returns a Failure, never
/// throws, for anything else: bad syntax or UTF-8, numbers that a double cannot hold, duplicate keys (named),
/// exceeded limits. Messages say the byte offset.
Result<nlohmann::json> parse_bounded_json(std::span<const std::byte> bytes, const JsonLimits& limits = {});

/// Takes an element of a list under a key of the root object. An exception from it ends the parsing and
/// passes through.
using JsonElementSink = std::function<void(std::string_view key, const nlohmann::json& element)>;

/// As above, for a root object with long lists. Each element of an array that is a member of the root goes to
/// the sink as soon as it is complete, in the text's order, and is not kept, so the limits hold for one
/// element at a time. The arrays of the result are empty.
Result<nlohmann::json> parse_bounded_json_lists(std::span<const std::byte> bytes, const JsonLimits& limits,
                                                JsonElementSink sink);

/// Takes an element of a list (with an empty key) or a member of an object, found at a path.
using JsonMemberSink =
    std::function<void(std::string_view path, std::string_view key, const nlohmann::json& value)>;

/// As above, for the lists and objects at the given paths ("model.vocab": the member vocab of the root's
/// member model), in any order; they are empty in the result. Keys of such objects are not compared with each
/// other: that is left to the sink.
Result<nlohmann::json> parse_bounded_json_members(std::span<const std::byte> bytes, const JsonLimits& limits,
                                                  std::span<const std::string_view> paths,
                                                  JsonMemberSink sink);

/// As parse_bounded_json, for a file; its path begins the message.
Result<nlohmann::json> read_bounded_json(const std::string& path, const JsonLimits& limits = {});

/// Fails with the first byte at which a string or number (any run of characters other than structure and
/// space) is longer than max_token_bytes, or arrays and objects nest deeper than max_depth. A cheap scan, for
/// parsers that must know before they copy tokens. It does not check syntax.
Status check_json_tokens(std::span<const std::byte> bytes, std::uint64_t max_token_bytes, unsigned max_depth);

/// Returns the parser's words for a syntax error at a byte offset, cleaned for a message.
std::string json_error_text(std::size_t offset, const char* what);

}  // namespace crumb
