// Saved sessions from anywhere, restored into one whose past is kept in both ways: what is taken is what is saved again, and
// a run from there ends, with the same bits on one thread and on three.
#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "runtime/meter.h"
#include "runtime/session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile.h"

namespace crumb::testing {
namespace {

using graph::Dim;
using graph::ElementType;
using runtime::Array;
using runtime::Session;

constexpr runtime::Limits kLimits{.memory = std::uint64_t{16} << 20, .work = std::uint64_t{1} << 22};

/// Attention of two heads that share their keys, and a past that is a Concat.
graph::Graph network() {
  graph::Graph made;
  const auto value = [&](const std::string& name, std::int64_t heads, const char* places,
                         std::int64_t depth) {
    made.values[name] = {
        ElementType::kFloat, graph::Shape{Dim("batch"), Dim(heads), Dim(places), Dim(depth)}, {}};
    return name;
  };
  made.inputs = {value("q", 2, "new", 4),         value("k", 1, "new", 4),
                 value("v", 1, "new", 3),         value("x", 1, "new", 2),
                 value("past_key", 1, "past", 4), value("past_value", 1, "past", 3),
                 value("past_x", 1, "past", 2)};
  made.outputs = {value("y", 2, "new", 3), value("present_key", 1, "all", 4),
                  value("present_value", 1, "all", 3), value("present_x", 1, "all", 2)};
  made.nodes = {{.name = "attend",
                 .op = "Attention",
                 .domain = "",
                 .version = 23,
                 .inputs = {"q", "k", "v", "", "past_key", "past_value"},
                 .outputs = {"y", "present_key", "present_value"},
                 .attributes = {{"is_causal", std::int64_t{1}}}},
                {.name = "join",
                 .op = "Concat",
                 .domain = "",
                 .version = 13,
                 .inputs = {"past_x", "x"},
                 .outputs = {"present_x"},
                 .attributes = {{"axis", std::int64_t{2}}}}};
  return made;
}

Array input_of(std::int64_t batch, std::int64_t heads, std::int64_t depth) {
  Array made(ElementType::kFloat, {batch, heads, 2, depth});
  const auto to = made.writable<float>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 8) / 3;
  return made;
}

/// What a run of two places makes; empty where it ends early.
std::vector<std::byte> stepped(Session& session, std::int64_t batch, int threads) {
  try {
    const auto made = session.run(
        {input_of(batch, 2, 4), input_of(batch, 1, 4), input_of(batch, 1, 3), input_of(batch, 1, 2)},
        {.threads = threads});
    std::vector<std::byte> bytes(made[0].data(), made[0].data() + made[0].bytes());
    const auto saved = session.save();
    bytes.insert(bytes.end(), saved.begin(), saved.end());
    return bytes;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says why");
    return {};
  }
}

/// Hostile numbers anywhere, under a checksum that is right.
std::string hostile_session(std::string_view file, Random& random) {
  constexpr std::size_t kSum = sizeof(std::uint32_t), kBegin = 8;
  if (file.size() < kBegin + 2 * sizeof(std::uint64_t) + kSum) return {};
  std::string made(file.substr(0, file.size() - kSum));
  for (std::uint64_t changes = random.below(3); changes-- > 0;) {
    const std::size_t width = random.one_in(2) ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
    const std::size_t at = kBegin + random.below((made.size() - kBegin - width) + 1);
    std::uint64_t old = 0;
    std::memcpy(&old, made.data() + at, width);
    const std::uint64_t number = hostile_number(random, made.size(), old);
    std::memcpy(made.data() + at, &number, width);
  }
  if (random.one_in(4)) made.resize(kBegin + random.below(made.size() - kBegin + 16));
  const std::uint32_t sum = crc32_of(bytes_of(made));
  made.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return made;
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  static const runtime::Model model(network());
  const runtime::MeterScope scope(std::make_shared<runtime::Meter>(kLimits));
  Session one(model, runtime::find_ties(model.graph())), three(model, one.ties());
  require(one.ties().size() == 3 && one.grows_in_place(0) && !one.grows_in_place(2), "ties are found");
  stepped(three, 2, 3);
  const auto before = three.save();
  try {
    one.restore(input);
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says why");
    try {
      three.restore(input);
      require(false, "what one session refuses, every one does");
    } catch (const Error&) {
      require(three.save() == before, "what is refused changes nothing");
    }
    return;
  }
  require(std::ranges::equal(one.save(), input), "what is restored is what is saved");
  three.restore(input);
  for (const std::int64_t batch : {1, 2})
    require(stepped(one, batch, 1) == stepped(three, batch, 3), "threads change nothing");
  if (one.length() > 1) {
    one.truncate(one.length() / 2);
    three.truncate(three.length() / 2);
    require(one.save() == three.save(), "what is cut is the same");
  }
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_session, data, size, most, seed);
}
