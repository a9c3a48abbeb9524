#include "runtime/session_file.h"

#include <bit>
#include <cstring>
#include <string_view>

#include "base/checked_size.h"
#include "base/checksum.h"

namespace crumb::runtime {
namespace {

constexpr std::string_view kMagic = "crumb-kv";
constexpr std::uint32_t kVersion = 1, kMostAxes = 16;

static_assert(std::endian::native == std::endian::little);

template <class T>
void put(std::vector<std::byte>& to, const T& number) {
  const auto bytes = std::as_bytes(std::span(&number, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Reads from the front of the bytes. Reads nothing more once bytes were missing.
class Rest {
 public:
  explicit Rest(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) {
      short_ = true;
      bytes_ = {};
      return {};
    }
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  template <class T>
  T number() {
    T made{};
    const auto from = take(sizeof made);
    if (!from.empty()) std::memcpy(&made, from.data(), sizeof made);
    return made;
  }
  bool is_short() const { return short_; }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  bool short_ = false;
};

/// Returns what is wrong; empty where the value is sound.
std::string read_value(Rest& rest, SavedValue& value) {
  const auto name = rest.take(rest.number<std::uint32_t>());
  value.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  const auto type = graph::element_type_of(rest.number<std::uint32_t>());
  const auto axes = rest.number<std::uint32_t>();
  if (rest.is_short()) return "it ends too early";
  if (!type || carrier_of(*type) == Carrier::kNone) return "a value has no type";
  if (axes > kMostAxes) return "a value has " + std::to_string(axes) + " axes";
  value.type = *type;
  for (std::uint32_t i = 0; i < axes; ++i) value.shape.push_back(rest.number<std::int64_t>());
  const auto bytes = rest.number<std::uint64_t>();
  value.elements = rest.take(bytes);
  if (rest.is_short()) return "it ends too early";
  if (value.shape.empty()) return bytes == 0 ? "" : "a value without places has elements";
  const auto count = graph::count_elements(value.shape);
  if (!count.ok()) return count.failure().message;
  const auto needed = graph::packed_bytes(value.type, count.value());
  if (!needed.ok()) return needed.failure().message;
  return needed.value() == bytes ? "" : "a value's elements are not as many as its shape says";
}

}  // namespace

std::vector<std::byte> session_bytes(const SavedSession& session) {
  std::vector<std::byte> made;
  const auto magic = std::as_bytes(std::span(kMagic));
  made.insert(made.end(), magic.begin(), magic.end());
  put(made, kVersion);
  put(made, static_cast<std::uint32_t>(session.values.size()));
  put(made, session.places);
  for (const SavedValue& value : session.values) {
    put(made, static_cast<std::uint32_t>(value.name.size()));
    const auto name = std::as_bytes(std::span(value.name));
    made.insert(made.end(), name.begin(), name.end());
    put(made, static_cast<std::uint32_t>(graph::onnx_number(value.type)));
    put(made, static_cast<std::uint32_t>(value.shape.size()));
    for (const std::int64_t size : value.shape) put(made, size);
    put(made, static_cast<std::uint64_t>(value.elements.size()));
    made.insert(made.end(), value.elements.begin(), value.elements.end());
  }
  put(made, crc32_of(made));
  return made;
}

Result<SavedSession> parse_session(std::span<const std::byte> bytes) {
  const auto wrong = [](const std::string& why) { return Failure{"a saved session: " + why}; };
  constexpr std::size_t kSum = sizeof(std::uint32_t);
  if (bytes.size() < kMagic.size() + kSum || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return wrong("these bytes are none");
  Rest rest(bytes.first(bytes.size() - kSum));
  rest.take(kMagic.size());
  const auto version = rest.number<std::uint32_t>();
  if (version != kVersion)
    return wrong("version " + std::to_string(version) + ", and " + std::to_string(kVersion) + " is known");
  std::uint32_t sum = 0;
  std::memcpy(&sum, bytes.data() + bytes.size() - kSum, kSum);
  if (crc32_of(bytes.first(bytes.size() - kSum)) != sum) return wrong("its checksum is another");
  const auto count = rest.number<std::uint32_t>();
  SavedSession made;
  made.places = rest.number<std::uint64_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string why = read_value(rest, made.values.emplace_back());
    if (!why.empty()) return wrong(why);
  }
  if (rest.is_short()) return wrong("it ends too early");
  if (rest.left() > 0) return wrong("something lies behind its end");
  return made;
}

}  // namespace crumb::runtime
