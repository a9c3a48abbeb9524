#include "quant/checkpoint_plan.h"

#include <fnmatch.h>

#include "formats/checkpoint/classify.h"
#include "formats/io/text.h"
#include "formats/text/nearest_name.h"

namespace crumb {
namespace {

constexpr size_t kMostListed = 20;

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const PlanOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  std::vector<PlannedTensor> plan() {
    by_role();
    for (const std::string& glob : options_.include) apply(glob, "--include", options_.weights);
    for (const std::string& glob : options_.exclude) apply(glob, "--exclude", std::nullopt);
    if (options_.embeddings) {
      for (size_t i = 0; i < plan_.size(); ++i) {
        if (roles_[i] == TensorRole::kEmbedding)
          assign(plan_[i], *options_.embeddings, "kept by --embeddings keep");
      }
    }
    for (const PlanOptions::Set& set : options_.set) apply(set.glob, "--set", set.spec);
    check_shapes();
    return std::move(plan_);
  }

 private:
  void by_role() {
    static const QuantSpec per_row = QuantSpec::parse("int8:channel");
    for (const TensorEntry& entry : checkpoint_.tensors()) {
      const TensorClass role = classify_tensor(entry.name, entry.dtype, entry.shape, checkpoint_.config());
      roles_.push_back(role.role);
      PlannedTensor planned{.entry = &entry, .spec = std::nullopt, .kept_because = role.kept_because};
      if (role.role == TensorRole::kWeight) assign(planned, options_.weights, "");
      if (role.role == TensorRole::kEmbedding) assign(planned, per_row, "");
      plan_.push_back(std::move(planned));
    }
  }

  static void assign(PlannedTensor& planned, const SpecOrKeep& spec, const std::string& kept_because) {
    planned.spec = spec;
    planned.kept_because = spec ? "" : kept_because;
  }

  void apply(const std::string& glob, const std::string& option, const SpecOrKeep& spec) {
    bool matched = false, applied = false;
    std::vector<std::string_view> names;
    for (PlannedTensor& planned : plan_) {
      const TensorEntry& entry = *planned.entry;
      names.push_back(entry.name);
      if (fnmatch(glob.c_str(), entry.name.c_str(), 0) != 0) continue;
      matched = true;
      if (spec && !is_floating(entry.dtype)) {
        planned.kept_because = "not floating point (" + std::string(dtype_name(entry.dtype)) + "), though " +
                               option + " names it";
        continue;
      }
      applied = true;
      assign(planned, spec, "excluded by " + option + " " + quote_text(glob));
    }
    if (!matched) {
      throw usage_error(option + " " + quote_text(glob) + " matches none of the " +
                        std::to_string(plan_.size()) + " tensors; the nearest name is " +
                        quote_text(nearest_name(glob, names)));
    }
    if (!applied) {
      throw usage_error(option + " " + quote_text(glob) +
                        " matches only tensors that are not floating point and cannot be quantized");
    }
  }

  void check_shapes() const {
    std::vector<std::string> misfits;
    for (const PlannedTensor& planned : plan_) {
      if (!planned.spec) continue;
      if (const auto misfit = planned.spec->misfit(planned.entry->shape)) {
        misfits.push_back(quote_text(planned.entry->name) + ": " + *misfit);
      }
    }
    if (misfits.empty()) return;
    std::string message = std::to_string(misfits.size()) +
                          (misfits.size() == 1 ? " tensor does" : " tensors do") + " not fit the spec:";
    for (size_t i = 0; i < std::min(misfits.size(), kMostListed); ++i) message += "\n  " + misfits[i];
    if (misfits.size() > kMostListed)
      message += "\n  and " + std::to_string(misfits.size() - kMostListed) + " more";
    throw Error(message +
                "\nchoose another size, add ':pad' to allow a smaller last group, or give these tensors "
                "another spec with --set or --exclude");
  }

  const Checkpoint& checkpoint_;
  const PlanOptions& options_;
  std::vector<PlannedTensor> plan_;
  std::vector<TensorRole> roles_;
};

}  // namespace

SpecOrKeep parse_spec_or_keep(std::string_view text) {
  if (text == "keep") return std::nullopt;
  return QuantSpec::parse(text);
}

std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const PlanOptions& options) {
  return Planner(checkpoint, options).plan();
}

}  // namespace crumb
