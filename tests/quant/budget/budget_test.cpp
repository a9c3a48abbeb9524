// Formats measured on the tensors of a checkpoint, against quantizing each tensor whole; and choices by budget, against
// every choice there is.
#include "quant/budget/budget.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/safetensors/safetensors.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_plan.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::BudgetChoice;
using crumb::BudgetRequest;
using crumb::Checkpoint;
using crumb::MeasuredFormat;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::testing::elements;
using crumb::testing::says;

namespace {

struct TensorOf {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  bool narrow = false;  ///< stored as bfloat16; `values` are what that keeps
  bool wide = false;    ///< stored as float64, inf as a number beyond float32
};

/// A safetensors file of these tensors.
class Written {
 public:
  explicit Written(const std::vector<TensorOf>& tensors) {
    std::vector<crumb::TensorDescription> described;
    for (const TensorOf& tensor : tensors) {
      described.push_back({tensor.name,
                           tensor.wide     ? crumb::DType::kF64
                           : tensor.narrow ? crumb::DType::kBF16
                                           : crumb::DType::kF32,
                           tensor.shape});
    }
    crumb::SafetensorsWriter file(dir_.path() / "m.safetensors", described);
    for (const crumb::TensorDescription& next : file.tensors()) {
      const TensorOf& tensor = *std::ranges::find(tensors, next.name, &TensorOf::name);
      const auto append = [&](const auto value) {
        file.write(next.name, std::as_bytes(std::span(&value, 1)));
      };
      for (const float value : tensor.values) {
        if (tensor.wide) {
          append(std::isinf(value) ? 1e300 : static_cast<double>(value));
        } else if (tensor.narrow) {
          append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
        } else {
          append(value);
        }
      }
    }
    file.commit();
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(dir_.path() / "m.safetensors").take());
  }
  const Checkpoint& checkpoint() const { return *checkpoint_; }

 private:
  crumb::testing::TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TensorOf tensor_of(const std::string& name, const std::vector<uint64_t>& shape, uint64_t seed,
                   bool narrow = false) {
  TensorOf made{name, shape, crumb::testing::normal_values(elements(shape), seed), narrow};
  for (size_t i = 0; i < made.values.size(); i += 7) made.values[i] *= static_cast<float>(1 + seed % 4);
  if (narrow) {
    for (float& v : made.values) v = std::bit_cast<float>(std::bit_cast<uint32_t>(v) & 0xFFFF0000u);
  }
  return made;
}

std::vector<QuantSpec> specs_of(const std::vector<std::string>& texts) {
  std::vector<QuantSpec> specs;
  for (const std::string& text : texts) specs.push_back(QuantSpec::parse(text));
  return specs;
}

std::vector<std::vector<MeasuredFormat>> measure(const Written& written,
                                                 const std::vector<QuantSpec>& formats,
                                                 const crumb::MeasureOptions& options = {}) {
  std::vector<const crumb::TensorEntry*> entries;
  for (const crumb::TensorEntry& entry : written.checkpoint().tensors()) entries.push_back(&entry);
  return measure_formats(written.checkpoint(), entries, formats, options);
}

/// The tensor quantized whole.
MeasuredFormat measured_whole(const TensorOf& tensor, const QuantSpec& spec) {
  const crumb::QuantizedTensor made = crumb::quantize(spec, tensor.values, tensor.shape, {.threads = 1});
  std::vector<float> back(tensor.values.size());
  crumb::dequantize(made.view(), back, 1);
  double lost = 0, all = 0, most = 0;
  for (size_t i = 0; i < back.size(); ++i) {
    const double x = static_cast<double>(tensor.values[i]), e = x - static_cast<double>(back[i]);
    all += x * x;
    lost += e * e;
    most = std::max(most, std::fabs(e));
  }
  return {.spec = spec,
          .bytes = made.codes.size() + made.scales.size() + made.zeros.size() + made.codebook.size(),
          .loss = lost / all,
          .sqnr_db = 10 * std::log10(all / lost),
          .max_abs_error = most,
          .saturated_scales = made.saturated_scales};
}

BudgetRequest request_of(const std::vector<std::string>& formats) {
  BudgetRequest request;
  request.formats = specs_of(formats);
  request.recipe = [](const QuantSpec& weights, const QuantSpec& embeddings) {
    return Recipe{.weights = weights, .embeddings = embeddings, .rules = {}};
  };
  return request;
}

uint64_t packed_bytes(const Written& written, const Recipe& recipe) {
  return plan_run(written.checkpoint(), plan_checkpoint(written.checkpoint(), recipe), recipe).output_bytes;
}

std::string refusal_of(const Written& written, const BudgetRequest& request) {
  try {
    (void)choose_by_budget(written.checkpoint(), request);
    return "";
  } catch (const crumb::Error& error) {
    return error.what();
  }
}

/// The tensors of a model: four weights, a table of embeddings, a bias that is kept.
std::vector<TensorOf> small_model() {
  return {tensor_of("a.weight", {24, 32}, 1),
          tensor_of("b.weight", {40, 64}, 2, true),
          tensor_of("c.bias", {16}, 3),
          tensor_of("d.weight", {16, 96}, 7),
          tensor_of("embed_tokens.weight", {50, 32}, 4),
          tensor_of("f.weight", {8, 128}, 5)};
}

/// All choices of formats for the tensors: bytes and loss.
struct Choice {
  uint64_t bytes = 0;
  double loss = 0;
};
std::vector<Choice> all_choices(const std::vector<std::vector<MeasuredFormat>>& measured) {
  std::vector<Choice> all{{}};
  for (const auto& formats : measured) {
    std::vector<Choice> longer;
    for (const Choice& choice : all) {
      for (const MeasuredFormat& format : formats)
        longer.push_back({choice.bytes + format.bytes, choice.loss + format.loss});
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

TEST_CASE("measured formats are those of tensors quantized whole, however formats cut them") {
  // The first is larger than a slice, and blocks of 16 rows cut it elsewhere than rows do.
  const std::vector<TensorOf> tensors{tensor_of("a", {1600, 700}, 1), tensor_of("b", {33}, 2, true),
                                      tensor_of("c", {6, 64}, 3), tensor_of("d", {6, 64}, 4),
                                      tensor_of("e", {1, 1}, 5)};
  const Written written(tensors);
  const std::vector<QuantSpec> formats =
      specs_of({"int4:channel", "int8:tensor", "int3:block=16x16:pad", "int2h:channel", "int4:group=32",
                "int5:block=16x16:pad", "uint4:channel:zero=int", "palette2:tensor"});
  const auto measured = measure(written, formats);
  REQUIRE(measured.size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t k = 0;
    for (const QuantSpec& spec : formats) {
      if (spec.misfit(tensors[i].shape)) continue;
      CAPTURE(tensors[i].name);
      CAPTURE(spec.to_string());
      REQUIRE(k < measured[i].size());
      const MeasuredFormat &found = measured[i][k++], expected = measured_whole(tensors[i], spec);
      CHECK(found.spec == expected.spec);
      CHECK(found.bytes == expected.bytes);
      CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-9));
      if (expected.loss > 0) CHECK(found.sqnr_db == doctest::Approx(expected.sqnr_db).epsilon(1e-9));
      CHECK(found.max_abs_error == expected.max_abs_error);
      CHECK(found.saturated_scales == expected.saturated_scales);
    }
    CHECK(k == measured[i].size());
  }
}

TEST_CASE("a value that is not finite ends measuring, and only of float64 it may have become so") {
  for (const int bits : {16, 32, 64}) {
    CAPTURE(bits);
    TensorOf tensor = tensor_of("w", {2, 8}, 1, bits == 16);
    tensor.wide = bits == 64;
    tensor.values[11] = std::numeric_limits<float>::infinity();
    const Written written({tensor});
    try {
      (void)measure(written, specs_of({"int4:channel"}));
      FAIL("no error");
    } catch (const crumb::Error& error) {
      CHECK(says(error.what(), {"'w'", "index 11", "inf"}));
      CHECK((std::string(error.what()).find("float64") != std::string::npos) == (bits == 64));
    }
  }
}

TEST_CASE("a run's memory grows with its threads, and is refused only where somebody set a limit") {
  const Written written({tensor_of("a", {40, 64}, 1)});
  const Recipe recipe{.weights = QuantSpec::parse("int4:channel"), .rules = {}};
  const std::vector<crumb::PlannedTensor> plan = plan_checkpoint(written.checkpoint(), recipe);
  const uint64_t base = uint64_t{1} << 40;  // beyond what this process ever held
  const auto peak = [&](int threads, uint64_t memory = 0) {
    return plan_run(written.checkpoint(), plan, recipe, memory, threads, base).peak_memory_bytes;
  };
  CHECK(peak(1) > base);
  CHECK(peak(2) - peak(1) == 1'000'000);
  CHECK(peak(7) - peak(1) == 6'000'000);
  CHECK(peak(3, peak(3)) == peak(3));
  CHECK_THROWS_AS(peak(3, peak(3) - 1), crumb::Error);
  CHECK_THROWS_AS(peak(3, 1), crumb::Error);
}

TEST_CASE("measuring tells how far it is, before each tensor and at the end") {
  const std::vector<TensorOf> tensors{tensor_of("a", {4, 64}, 1), tensor_of("b", {6, 64}, 2, true),
                                      tensor_of("c", {2, 64}, 3)};
  const Written written(tensors);
  for (const std::vector<std::string>& formats :
       {std::vector<std::string>{"int4:channel"}, {"int4:channel", "int8:tensor", "int3:block=2x2"}}) {
    std::vector<uint64_t> counts, bytes;
    crumb::MeasureOptions options;
    options.progress = [&](const crumb::MeasureProgress& done) {
      counts.push_back(done.tensors);
      bytes.push_back(done.bytes);
      CHECK(done.all_tensors == 3);
      CHECK(done.all_bytes == 1024 + 768 + 512);
    };
    (void)measure(written, specs_of(formats), options);
    CHECK(counts == std::vector<uint64_t>{0, 1, 2, 3});
    CHECK(bytes == std::vector<uint64_t>{0, 1024, 1792, 2304});
  }
}

TEST_CASE("a tensor that no format fits is named, with what hinders each") {
  const Written written({tensor_of("a", {4, 64}, 1), tensor_of("odd", {5, 7}, 2)});
  const auto formats = specs_of({"int4:group=32", "int3:group=2"});
  try {
    (void)measure(written, formats);
    FAIL("no error");
  } catch (const crumb::Error& error) {
    CHECK(says(error.what(), {"'odd'", "\n  int4:group=32: ", "\n  int3:group=2: ", ":pad"}));
  }
  CHECK(measure(written, specs_of({"int4:group=32", "int3:group=2", "int8:channel"}))[0].size() == 3);
  CHECK(measure(written, specs_of({"int4:group=32", "int3:group=2", "int8:channel"}))[1].size() == 1);
}

TEST_CASE("budget in bits: the least loss of every choice within it, bits of all weights counted") {
  const Written written(small_model());
  BudgetRequest request = request_of({"int2h:channel", "int4:group=32", "int4:channel", "int8:channel"});
  std::vector<std::vector<MeasuredFormat>> measured;
  uint64_t weights = 0;
  for (const TensorOf& tensor : small_model()) {
    if (tensor.shape.size() < 2) continue;
    weights += tensor.values.size();
    measured.emplace_back();
    for (const QuantSpec& spec : request.formats) measured.back().push_back(measured_whole(tensor, spec));
  }
  const std::vector<Choice> all = all_choices(measured);
  const auto bits_of = [&](uint64_t bytes) {
    return static_cast<double>(bytes) * 8 / static_cast<double>(weights);
  };
  const uint64_t least = std::ranges::min_element(all, {}, &Choice::bytes)->bytes;
  for (const double requested : {bits_of(least), 2.7, 3.1, 4.0, 4.7, 6.0, 8.05, 40.0, 1e300}) {
    CAPTURE(requested);
    request.target = {.bits_per_weight = requested};
    const BudgetChoice found = choose_by_budget(written.checkpoint(), request);
    double expected = std::numeric_limits<double>::infinity(), best = expected;
    for (const Choice& choice : all) {
      best = std::min(best, choice.loss);
      if (bits_of(choice.bytes) <= requested) expected = std::min(expected, choice.loss);
    }
    CHECK(found.loss == doctest::Approx(expected).epsilon(1e-9));
    CHECK(found.bound == found.loss);
    CHECK(found.best_everywhere == (expected <= best * (1 + 1e-9)));
    uint64_t bytes = 0;
    for (const auto& [name, format] : found.chosen) bytes += format.bytes;
    CHECK(bits_of(bytes) <= requested);
    REQUIRE(found.chosen.size() == measured.size());
    // The recipe says what was chosen, and nothing of the others.
    for (const crumb::PlannedTensor& planned : plan_checkpoint(written.checkpoint(), found.recipe)) {
      const auto chosen = found.chosen.find(planned.entry->name);
      CHECK(planned.spec.has_value() == (chosen != found.chosen.end()));
      if (planned.spec && chosen != found.chosen.end()) CHECK(*planned.spec == chosen->second.spec);
    }
  }
  request.target = {.bits_per_weight = std::nextafter(bits_of(least), 0.0)};
  CHECK(says(refusal_of(written, request), {"below the least", "bpw"}));
}

TEST_CASE("budget in bits: a tensor with a spec of its own keeps it, and counts") {
  const Written written(small_model());
  BudgetRequest request = request_of({"int2h:channel", "int4:channel", "int8:channel"});
  request.recipe = [](const QuantSpec& weights, const QuantSpec& embeddings) {
    Recipe recipe{.weights = weights, .embeddings = embeddings, .rules = {}};
    recipe.rules.push_back({.match = {.name = {"a.weight"}}, .weights = QuantSpec::parse("int6:channel")});
    return recipe;
  };
  uint64_t weights = 0, fixed = 0;
  std::vector<std::vector<MeasuredFormat>> measured;
  for (const TensorOf& tensor : small_model()) {
    if (tensor.shape.size() < 2) continue;
    weights += tensor.values.size();
    if (tensor.name == "a.weight") {
      fixed = measured_whole(tensor, QuantSpec::parse("int6:channel")).bytes;
      continue;
    }
    measured.emplace_back();
    for (const QuantSpec& spec : request.formats) measured.back().push_back(measured_whole(tensor, spec));
  }
  for (const double requested : {3.0, 4.0, 5.5, 7.0}) {
    CAPTURE(requested);
    request.target = {.bits_per_weight = requested};
    const BudgetChoice found = choose_by_budget(written.checkpoint(), request);
    double expected = std::numeric_limits<double>::infinity();
    for (const Choice& choice : all_choices(measured)) {
      const double bits = static_cast<double>(fixed + choice.bytes) * 8 / static_cast<double>(weights);
      if (bits <= requested) expected = std::min(expected, choice.loss);
    }
    CHECK(found.loss == doctest::Approx(expected).epsilon(1e-9));
    CHECK_FALSE(found.chosen.contains("a.weight"));
  }
  request.recipe = [](const QuantSpec&, const QuantSpec&) {
    return Recipe{.weights = QuantSpec::parse("int6"), .rules = {}};
  };
  CHECK(says(refusal_of(written, request), {"nothing to choose"}));
}

TEST_CASE("budget in bytes: the packed file is within it, from the least that is named on") {
  const Written written(small_model());
  BudgetRequest request = request_of({"int2h:channel", "int4:channel", "int8:channel"});
  request.target = {.file_bytes = 1};
  const std::string refused = refusal_of(written, request);
  const std::string before = "formats give here: ";
  const size_t at = refused.find(before);
  REQUIRE(at != std::string::npos);
  const uint64_t least = std::stoull(refused.substr(at + before.size()));
  CHECK(packed_bytes(written, request.recipe(request.formats[0], request.formats[0])) == least);
  request.target.file_bytes = least - 1;
  CHECK(says(refusal_of(written, request), {"below the least"}));
  // Every choice, with the file that a recipe with a rule for each tensor makes: larger than it need be.
  std::vector<Choice> all_files{{}};
  std::vector<Recipe> recipes{request.recipe(request.formats[0], request.formats[0])};
  for (const TensorOf& tensor : small_model()) {
    if (tensor.shape.size() < 2) continue;
    std::vector<Choice> longer;
    std::vector<Recipe> with_rule;
    for (size_t i = 0; i < all_files.size(); ++i) {
      for (const QuantSpec& spec : request.formats) {
        longer.push_back({0, all_files[i].loss + measured_whole(tensor, spec).loss});
        with_rule.push_back(recipes[i]);
        with_rule.back().rules.push_back({.match = {.name = {tensor.name}}, .weights = spec});
      }
    }
    all_files = std::move(longer);
    recipes = std::move(with_rule);
  }
  for (size_t i = 0; i < recipes.size(); ++i) all_files[i].bytes = packed_bytes(written, recipes[i]);
  double before_loss = std::numeric_limits<double>::infinity();
  for (uint64_t limit = least; limit < least + 8000; limit += 250) {
    CAPTURE(limit);
    double within = std::numeric_limits<double>::infinity();
    for (const Choice& file : all_files) {
      if (file.bytes <= limit) within = std::min(within, file.loss);
    }
    request.target.file_bytes = limit;
    const BudgetChoice found = choose_by_budget(written.checkpoint(), request);
    CHECK(packed_bytes(written, found.recipe) <= limit);
    double loss = 0;
    for (const auto& [name, format] : found.chosen) loss += format.loss;
    CHECK(found.loss == doctest::Approx(loss).epsilon(1e-12));
    CHECK(found.bound <= found.loss);
    CHECK(found.bound >= 0);
    CHECK(found.bound <= within * (1 + 1e-9));
    CHECK(found.loss <= within * (1 + 1e-9));
    if (limit == least) CHECK(packed_bytes(written, found.recipe) == least);
    before_loss = std::min(before_loss, found.loss);
  }
  request.target.file_bytes = uint64_t{1} << 40;
  const BudgetChoice all = choose_by_budget(written.checkpoint(), request);
  CHECK(all.best_everywhere);
  CHECK(all.loss < before_loss * (1 + 1e-12));
  for (const auto& [name, format] : all.chosen) CHECK(format.spec == request.formats[2]);
}
