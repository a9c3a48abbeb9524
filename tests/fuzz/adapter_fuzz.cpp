// Low-rank adapters: a GGUF file, or the two files of PEFT's folder, parted by the byte 1E. What is read is sound.
#include <algorithm>

#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/peft.h"
#include "formats/gguf/gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_gguf.h"

namespace crumb::testing {
namespace {

constexpr char kSeparator = '\x1E';
constexpr std::size_t kHeadSize = 2;

Result<Adapter> parse(std::span<const std::byte> input) {
  if (looks_like_gguf(input)) return parse_gguf_adapter(input, kHeadSize);
  const std::string_view text = text_of(input);
  const std::size_t end = std::min(text.find(kSeparator), text.size());
  return parse_peft(text.substr(0, end), input.subspan(std::min(end + 1, input.size())));
}

std::string hostile_adapter(std::string_view input, Random& random) {
  return input.starts_with("GGUF") ? hostile_gguf(input, random) : std::string();
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  const Result<Adapter> adapter = parse(input);
  if (!is_ok(adapter)) return;
  require(!adapter.value().updates.empty(), "an adapter has updates");
  try {
    check_adapter(adapter.value());
  } catch (const Error& error) {
    require(false, error.what());
  }
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_adapter, data, size, most, seed);
}
