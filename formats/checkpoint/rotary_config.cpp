#include "formats/checkpoint/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/llama3_scaling.h"
#include "formats/rotary_factors.h"

namespace crumb {
namespace {

/// The keys of one rotation, and what belongs to it in the whole file.
class RotationParser {
 public:
  RotationParser(const JsonFile& file, const nlohmann::json* scaling, const RotationDefaults& defaults)
      : file_(file),
        scaling_(file.name() + ": rope_scaling", scaling ? scaling->dump() : "{}"),
        defaults_(defaults) {
    theta_ = scaling_.number("rope_theta").value_or(file.number("rope_theta").value_or(defaults.theta));
    if (!(theta_ > 0) || !std::isfinite(theta_)) throw file.error("rope_theta must be above 0");
  }

  RotaryEmbedding parse() {
    RotaryEmbedding made = by_type();
    made.theta = theta_;
    return made;
  }

 private:
  RotaryEmbedding by_type() const {
    const std::string type =
        scaling_.string("rope_type").value_or(scaling_.string("type").value_or("default"));
    if (type == "default") return {.frequencies = plain(), .long_frequencies = {}};
    if (type == "linear") return {.frequencies = slower(plain(), positive("factor")), .long_frequencies = {}};
    if (type == "llama3") return llama3();
    if (type == "yarn") return yarn();
    if (type == "longrope" || type == "su") return longrope();
    throw scaling_.error("its type is \"" + type +
                         "\"; supported are default, linear, llama3, yarn and longrope");
  }

  std::size_t count() const { return defaults_.size / 2; }

  /// theta^(2 k / size), float32.
  float period(std::size_t k) const {
    const float exponent = static_cast<float>(2 * k) / static_cast<float>(defaults_.size);
    return static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta_)), exponent));
  }

  std::vector<float> plain() const {
    std::vector<float> made;
    for (std::size_t k = 0; k < count(); ++k) made.push_back(1.0F / period(k));
    return made;
  }

  static std::vector<float> slower(std::vector<float> frequencies, double factor) {
    for (float& f : frequencies) f /= static_cast<float>(factor);
    return frequencies;
  }

  double positive(const char* key) const {
    const auto value = scaling_.number(key);
    if (!value) throw scaling_.error("\"" + std::string(key) + "\" is missing");
    if (!(*value > 0) || !std::isfinite(*value))
      throw scaling_.error("\"" + std::string(key) + "\" must be above 0");
    return *value;
  }

  /// The file's own, the scaling's, or as many as the network has.
  std::size_t original_places() const {
    constexpr const char* kKey = "original_max_position_embeddings";
    const auto own = file_.count(kKey, 1);
    return own ? *own : scaling_.count(kKey, 1).value_or(defaults_.max_positions);
  }
  double original_positions() const { return static_cast<double>(original_places()); }

  RotaryEmbedding llama3() const {
    const Llama3Scaling scaling{.factor = positive("factor"),
                                .low = positive("low_freq_factor"),
                                .high = positive("high_freq_factor"),
                                .context = original_places()};
    if (!(scaling.low < scaling.high)) throw scaling_.error("low_freq_factor must be below high_freq_factor");
    RotaryEmbedding made{.frequencies = plain(), .long_frequencies = {}};
    for (float& f : made.frequencies) {
      const auto kept =
          static_cast<float>(share_kept(scaling, 2 * std::numbers::pi / static_cast<double>(f)));
      f = (1 - kept) * (f / static_cast<float>(scaling.factor)) + kept * f;
    }
    return made;
  }

  RotaryEmbedding yarn() const {
    const double places = original_positions(), size = static_cast<double>(defaults_.size);
    const double factor =
        scaling_.has("factor") ? positive("factor") : static_cast<double>(defaults_.max_positions) / places;
    const double some = scaling_.number("mscale").value_or(0),
                 all = scaling_.number("mscale_all_dim").value_or(0);
    double attention = some != 0 && all != 0
                           ? usual_yarn_factor(factor, some) / usual_yarn_factor(factor, all)
                           : usual_yarn_factor(factor);
    attention = scaling_.number("attention_factor").value_or(attention);
    const auto turns = [&](const char* key, double usual) {
      const double given = scaling_.number(key).value_or(usual);
      const double n = given == 0 ? usual : given;
      return size * std::log(places / (n * 2 * std::numbers::pi)) / (2 * std::log(theta_));
    };
    double low = turns("beta_fast", 32), high = turns("beta_slow", 1);
    if (scaling_.boolean("truncate").value_or(true)) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, size - 1);
    if (low == high) high += 0.001;
    if (!std::isfinite(low) || !std::isfinite(high)) throw scaling_.error("its numbers make no frequencies");
    RotaryEmbedding made{
        .frequencies = plain(), .long_frequencies = {}, .factor = static_cast<float>(attention)};
    for (std::size_t k = 0; k < count(); ++k) {
      float& f = made.frequencies[k];
      const auto ramp =
          static_cast<float>(std::clamp((static_cast<double>(k) - low) / (high - low), 0.0, 1.0));
      f = f / static_cast<float>(factor) * ramp + f * (1 - ramp);
    }
    return made;
  }

  std::vector<float> divided(const char* key) const {
    const auto found = scaling_.root().find(key);
    if (found == scaling_.root().end() || !found->is_array() || found->size() != count())
      throw scaling_.error("\"" + std::string(key) + "\" must be a list of " + std::to_string(count()) +
                           " numbers");
    std::vector<float> made;
    for (std::size_t k = 0; k < count(); ++k) {
      const auto& factor = (*found)[k];
      if (!factor.is_number() || !(factor.get<double>() > 0))
        throw scaling_.error("\"" + std::string(key) + "\": its numbers must be above 0");
      made.push_back(1.0F / (factor.get<float>() * period(k)));
    }
    return made;
  }

  RotaryEmbedding longrope() const {
    const double places = original_positions();
    RotaryEmbedding made{.frequencies = divided("short_factor"),
                         .long_frequencies = divided("long_factor"),
                         .switch_at = static_cast<std::size_t>(places)};
    if (made.long_frequencies == made.frequencies) {  // texts of all lengths are rotated alike
      made.long_frequencies.clear();
      made.switch_at = 0;
    }
    const double longer =
        scaling_.has("factor") ? positive("factor") : static_cast<double>(defaults_.max_positions) / places;
    made.factor = static_cast<float>(
        scaling_.number("attention_factor").value_or(usual_longrope_factor(longer, places)));
    if (!std::isfinite(made.factor)) throw scaling_.error("its numbers make no factor");
    return made;
  }

  const JsonFile& file_;
  JsonFile scaling_;
  RotationDefaults defaults_;
  double theta_ = 0;
};

}  // namespace

RotaryEmbedding parse_rotation(const JsonFile& file, const nlohmann::json* scaling,
                               const RotationDefaults& defaults) {
  return RotationParser(file, scaling, defaults).parse();
}

}  // namespace crumb
