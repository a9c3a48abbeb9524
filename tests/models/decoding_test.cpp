// A sequence of tokens that is cut short anywhere: by Ctrl-C, and by limits of memory and work. Nothing of it is lost.
#include "runtime/language/decoding.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/files/interrupt.h"
#include "jobs/language/language_model.h"
#include "runtime/language/generate.h"
#include "runtime/meter.h"
#include "tests/fuzz/calls.h"

namespace crumb::runtime {
namespace {

using Ids = std::vector<text::TokenId>;

constexpr std::size_t kKindsOfModels = 3;

Ids drawn_ids(std::mt19937_64& random, std::size_t count) {
  Ids ids(count);
  for (text::TokenId& id : ids) id = static_cast<text::TokenId>(random() % 11);  // 11 is NaN
  return ids;
}

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST_CASE("decoding: what fails or is interrupted leaves tokens, keys and values as they were") {
  const crumb::testing::Calls calls;
  std::mt19937_64 random(5);
  for (std::size_t kind = 0; kind < kKindsOfModels; ++kind) {
    jobs::Observer silent;
    const LanguageModel model = jobs::open_language_model(calls.path(kind), {}, silent);
    int failed = 0, done = 0;
    for (int round = 0; round < 400; ++round) {
      Decoding decoding(model, {.threads = 1});
      if (const std::size_t first = random() % 24; first > 0) decoding.feed(drawn_ids(random, first));
      const std::vector<std::byte> before = decoding.save();
      const Ids ids = decoding.ids();
      const std::size_t length = random() % (ids.size() + 1);
      const Ids more = drawn_ids(random, 1 + random() % (24 - length));
      const bool interrupts = round % 2 == 0;
      bool fails = false;
      std::vector<float> made;
      try {
        const Limits limits{.memory = std::uint64_t{1} << 24,
                            .work = interrupts ? std::uint64_t{1} << 30 : random() % 6000};
        const MeterScope scope(std::make_shared<Meter>(limits));
        interrupt_requested() = interrupts;
        made = copied(decoding.replace(length, more));
      } catch (const Interrupted&) {
        fails = true;
      } catch (const Stopped&) {
        fails = true;
      }
      interrupt_requested() = false;
      (fails ? failed : done) += 1;
      if (fails) {
        REQUIRE(decoding.save() == before);
        made = copied(decoding.replace(length, more));
      }
      // What is there now gives what all of it at once gives.
      Ids all(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length));
      all.insert(all.end(), more.begin(), more.end());
      REQUIRE(decoding.ids() == all);
      Decoding whole(model, {.threads = 1});
      REQUIRE(made == copied(whole.feed(all)));
    }
    CHECK(failed > 200);
    CHECK(done > 20);
  }
}

TEST_CASE(
    "generate: an answer ends whole, whatever prompt, context and shift; a shift that is interrupted loses "
    "nothing") {
  const crumb::testing::Calls calls;
  std::mt19937_64 random(6);
  for (std::size_t kind = 0; kind < kKindsOfModels; ++kind) {
    jobs::Observer silent;
    const LanguageModel model = jobs::open_language_model(calls.path(kind), {}, silent);
    for (std::size_t context = 1; context <= 24; ++context) {
      for (std::size_t size = 1; size <= context + 1; size += 1 + random() % 4) {
        Decoding decoding(model, {.threads = 1, .context = context});
        Ids prompt = drawn_ids(random, size);
        if (random() % 2 == 0) prompt[0] = 1;
        GenerateOptions options;
        options.tokens = 60;
        options.shift = random() % 4 > 0;
        const std::size_t until = random() % 40;
        std::size_t pieces = 0;
        const auto show = [&](std::string_view) { interrupt_requested() = ++pieces > until; };
        try {
          const Answer answer = generate(model, decoding, prompt, options, show);
          CHECK(decoding.ids().size() <= context);
          if (answer.stopped_by == StoppedBy::kInterrupt) {
            // The last token is chosen and not run: all before it are there, as far as the context reaches.
            const std::size_t said = prompt.size() + answer.ids.size() - 1;
            if (said <= context) CHECK(decoding.ids().size() == said);
            CHECK(!decoding.ids().empty());
          }
        } catch (const Interrupted&) {
          CHECK(decoding.ids().empty());
        } catch (const Error& error) {  // a prompt or an answer that does not fit
          const std::string said = error.what();
          const bool is_nan =
              said.find("is not a number") != std::string::npos;  // behind the word that is NaN
          CHECK((is_nan || said.find("the context is full") != std::string::npos));
          CHECK((is_nan || size > context || !options.shift));
        }
        interrupt_requested() = false;
      }
    }
    CHECK_THROWS_WITH((void)generate(model, *std::make_unique<Decoding>(model, DecodingOptions{}), {}, {}),
                      "the prompt is empty: there is nothing to answer");
  }
}

}  // namespace
}  // namespace crumb::runtime
