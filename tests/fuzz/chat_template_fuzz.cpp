// A chat template and a conversation (JSON), parted by the byte 1E: only crumb::Error is thrown, and what is rendered is
// UTF-8, the same text twice, no longer than the steps allow.
#include <algorithm>

#include "base/files/text.h"
#include "tests/fuzz/fuzz.h"
#include "text/chat/chat_template.h"
#include "text/chat/messages.h"

namespace crumb::testing {
namespace {

constexpr std::uint64_t kFuzzedSteps = 20'000;

std::optional<std::string> rendered(const text::ChatTemplate& chat, const nlohmann::ordered_json& messages) {
  constexpr std::time_t kNow = 1'700'000'000;
  try {
    return chat.render(messages, {.add_generation_prompt = true, .steps = kFuzzedSteps, .now = kNow});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  const std::string_view whole = text_of(input);
  const std::size_t end = std::min(whole.find('\x1E'), whole.size());
  const std::string_view conversation = whole.substr(std::min(end + 1, whole.size()));
  nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "hi <s>"}}};
  try {
    if (!conversation.empty()) messages = text::parse_messages(conversation, "messages");
    const auto chat = text::ChatTemplate::parse(whole.substr(0, end), "template",
                                                {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    const auto text = rendered(chat, messages);
    require(text == rendered(chat, messages), "a conversation has one text");
    if (!text) return;
    require(is_utf8(*text), "rendered text is UTF-8");
    const std::uint64_t steps = kFuzzedSteps + text::ChatTemplate::kStepsPerByte * (8 * whole.size() + 1000);
    require(text->size() <= 8 * steps, "a text is no longer than the steps allow");
  } catch (const Error&) {
    return;
  }
}

}  // namespace crumb::testing
