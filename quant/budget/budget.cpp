#include "quant/budget/budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/crumb_file/writer.h"
#include "quant/budget/assignment.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_plan.h"
#include "quant/packed/packed_tensor.h"
#include "quant/quantizer.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {
namespace {

uint64_t aligned(uint64_t bytes) { return (bytes + kCrumbAlignment - 1) / kCrumbAlignment * kCrumbAlignment; }

/// Returns the spec that most of the tensors have, the first of several; `otherwise` where there are none.
QuantSpec most_used(const std::vector<QuantSpec>& specs, const QuantSpec& otherwise) {
  const QuantSpec* most = &otherwise;
  ptrdiff_t uses = 0;
  for (const QuantSpec& spec : specs) {
    const ptrdiff_t count = std::ranges::count(specs, spec);
    if (count > uses) {
      most = &spec;
      uses = count;
    }
  }
  return *most;
}

/// Returns bits per weight rounded up, so that they are accepted as a target.
std::string bits_text(uint64_t bytes, uint64_t weights) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4fbpw", std::ceil(bits_per_weight(bytes, weights) * 1e4 + 1e-6) / 1e4);
  return text;
}

class Chooser {
 public:
  Chooser(const Checkpoint& checkpoint, const BudgetRequest& request)
      : checkpoint_(checkpoint), request_(request) {
    find_free();
  }

  BudgetChoice choose() {
    std::vector<const TensorEntry*> tensors;
    for (const size_t i : free_) tensors.push_back(plan_[i].entry);
    measured_ = measure_formats(checkpoint_, tensors, request_.formats, request_.measure);
    if (request_.weigh)
      for (size_t k = 0; k < tensors.size(); ++k) request_.weigh(tensors[k]->name, measured_[k]);
    const Assignment found = request_.target.file_bytes > 0 ? within_file() : within_bits();
    BudgetChoice choice{.recipe = recipe_of(found.choice),
                        .loss = found.loss,
                        .bound = found.bound,
                        .best_everywhere = true,
                        .chosen = {}};
    for (size_t k = 0; k < free_.size(); ++k) {
      const MeasuredFormat& format = measured_[k][found.choice[k]];
      choice.chosen.emplace(plan_[free_[k]].entry->name, format);
      for (const MeasuredFormat& other : measured_[k]) choice.best_everywhere &= other.loss >= format.loss;
    }
    return choice;
  }

 private:
  /// A tensor is free when it follows the recipe's own specs. The four specs tried here fit every shape.
  void find_free() {
    const auto planned = [&](const char* weights, const char* embeddings) {
      return plan_checkpoint(checkpoint_,
                             request_.recipe(QuantSpec::parse(weights), QuantSpec::parse(embeddings)));
    };
    plan_ = planned("int8:tensor", "int7:tensor");
    const std::vector<PlannedTensor> changed = planned("int6:tensor", "int5:tensor");
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (!plan_[i].spec) continue;
      weights_ += element_count(plan_[i].entry->shape).take();
      if (plan_[i].spec != changed[i].spec) {
        free_.push_back(i);
        follows_embeddings_.push_back(plan_[i].spec->number->bits == 7);
      } else {
        fixed_bytes_ +=
            encoded_layout(plan_[i].encoding(*plan_[i].spec), plan_[i].entry->shape).take().total_bytes();
      }
    }
    if (free_.empty()) {
      throw usage_error(
          "there is nothing to choose for the target: every tensor is kept or has its own spec");
    }
  }

  /// Returns the options of every free tensor, with cost(k, format) as cost.
  template <class Cost>
  std::vector<std::vector<AssignmentOption>> options(const Cost& cost) const {
    std::vector<std::vector<AssignmentOption>> items(free_.size());
    for (size_t k = 0; k < free_.size(); ++k)
      for (const MeasuredFormat& format : measured_[k])
        items[k].push_back({.cost = cost(k, format), .loss = format.loss});
    return items;
  }

  static std::vector<uint32_t> cheapest(const std::vector<std::vector<AssignmentOption>>& items) {
    std::vector<uint32_t> choice;
    choice.reserve(items.size());
    for (const auto& options : items) {
      choice.push_back(static_cast<uint32_t>(std::ranges::min_element(options, {}, &AssignmentOption::cost) -
                                             options.begin()));
    }
    return choice;
  }

  static uint64_t cost_of(const std::vector<std::vector<AssignmentOption>>& items,
                          const std::vector<uint32_t>& choice) {
    uint64_t cost = 0;
    for (size_t k = 0; k < items.size(); ++k) cost += items[k][choice[k]].cost;
    return cost;
  }

  Assignment within_bits() const {
    const auto items = options([](size_t, const MeasuredFormat& format) { return format.bytes; });
    const double most_bits = request_.target.bits_per_weight;
    const uint64_t least = fixed_bytes_ + cost_of(items, cheapest(items));
    if (bits_per_weight(least, weights_) > most_bits) {
      throw usage_error("the target of " + number_text(most_bits) +
                        "bpw is below the least that these formats give here: " + bits_text(least, weights_));
    }
    // A budget for more than 64 bits in every tensor is as good as none.
    const double most = std::min(most_bits, 64.0) / 8 * static_cast<double>(weights_) + 1;
    auto budget = std::max(least, static_cast<uint64_t>(most));
    while (bits_per_weight(budget, weights_) > most_bits) --budget;
    return assign(items, budget - fixed_bytes_).value();
  }

  /// Returns the bytes that a tensor takes in the file: its blobs, aligned, and its lines of the header.
  uint64_t bytes_in_file(const PlannedTensor& planned, const QuantSpec& spec) const {
    CrumbHeader header;
    const size_t empty = write_crumb_header(header).size();
    const TensorEntry& entry = *planned.entry;
    header.tensors.push_back(
        plan_encoded(entry.name, entry.dtype, entry.shape, spec.to_string(), planned.encoding(spec)));
    place_uncompressed(header);
    uint64_t bytes = write_crumb_header(header).size() - empty;
    for (const auto& blob : header.tensors[0].parts) bytes += blob ? aligned(blob->raw) : 0;
    return bytes;
  }

  /// The file holds the recipe's own text and an aligned header, and what these add is known only once the
  /// choice is made. So the first budget leaves out all that may vary, which makes its bound hold; the budget
  /// is then lowered by as many bytes as the file is too large.
  Assignment within_file() const {
    const auto items = options(
        [&](size_t k, const MeasuredFormat& format) { return bytes_in_file(plan_[free_[k]], format.spec); });
    const uint64_t limit = request_.target.file_bytes;
    const std::vector<uint32_t> smallest = cheapest(items);
    const Recipe least_recipe = recipe_of(smallest);
    const uint64_t least = file_size(least_recipe);
    if (least > limit) {
      throw usage_error("the target of " + byte_text(limit) +
                        " is below the least that these formats give here: " + std::to_string(least) + "B");
    }
    const uint64_t least_cost = cost_of(items, smallest);
    const uint64_t varying = aligned(to_yaml(least_recipe).size()) + kCrumbAlignment;
    uint64_t budget = least_cost + (limit - least) + varying;
    std::optional<double> bound;
    while (budget > least_cost) {
      std::optional<Assignment> found = assign(items, budget);
      if (!bound) bound = found->bound;
      const uint64_t size = file_size(recipe_of(found->choice));
      if (size <= limit) {
        found->bound = std::min(*bound, found->loss);
        return *found;
      }
      budget -= std::min(budget, size - limit);
    }
    Assignment found{.choice = smallest, .cost = least_cost, .loss = 0, .bound = bound.value_or(0)};
    for (size_t k = 0; k < items.size(); ++k) found.loss += items[k][smallest[k]].loss;
    return found;
  }

  uint64_t file_size(const Recipe& recipe) const {
    const std::vector<PlannedTensor> plan = plan_checkpoint(checkpoint_, recipe);
    const std::string structure = request_.structure ? request_.structure(plan) : "";
    return plan_run(checkpoint_, plan, recipe, 0, 0, 0, structure).output_bytes;
  }

  /// Returns the recipe whose plan is this choice: the most used specs are its defaults, rules name the other
  /// tensors.
  Recipe recipe_of(const std::vector<uint32_t>& choice) const {
    std::vector<QuantSpec> own[2];
    std::vector<SpecOrKeep> wanted;
    for (const PlannedTensor& planned : plan_) wanted.push_back(planned.spec);
    for (size_t k = 0; k < free_.size(); ++k) {
      wanted[free_[k]] = measured_[k][choice[k]].spec;
      own[follows_embeddings_[k]].push_back(measured_[k][choice[k]].spec);
    }
    const QuantSpec& any = measured_[0][choice[0]].spec;
    const QuantSpec most[2] = {most_used(own[0], any), most_used(own[1], any)};
    Recipe recipe = request_.recipe(most[0], most[1]);
    std::vector<size_t> named;
    for (size_t k = 0; k < free_.size(); ++k)
      if (wanted[free_[k]] != most[follows_embeddings_[k]]) named.push_back(free_[k]);
    while (!named.empty()) {
      add_rules(named, wanted, recipe);
      named = owned_by(named);  // a tensor's full name also stands for the layer of that name
    }
    return recipe;
  }

  /// Adds a rule for each spec of these tensors.
  void add_rules(std::vector<size_t> named, const std::vector<SpecOrKeep>& wanted, Recipe& recipe) const {
    while (!named.empty()) {
      const SpecOrKeep spec = wanted[named.front()];
      std::vector<std::string> names;
      std::erase_if(named, [&](size_t i) {
        if (wanted[i] != spec) return false;
        names.push_back(plan_[i].entry->name);
        return true;
      });
      recipe.rules.push_back(rule_for_tensors(names, spec));
    }
  }

  /// Returns the tensors in the layers that have these tensors' names, except those that are no weights
  /// anyway.
  std::vector<size_t> owned_by(const std::vector<size_t>& tensors) const {
    std::set<std::string_view> layers;
    for (const size_t i : tensors) layers.insert(plan_[i].entry->name);
    std::vector<size_t> owned;
    for (size_t i = 0; i < plan_.size(); ++i) {
      const bool may_change = plan_[i].spec || plan_[i].role != TensorRole::kKept;
      if (may_change && std::ranges::any_of(layers_of(plan_[i].entry->name),
                                            [&](std::string_view layer) { return layers.contains(layer); }))
        owned.push_back(i);
    }
    return owned;
  }

  const Checkpoint& checkpoint_;
  const BudgetRequest& request_;
  std::vector<PlannedTensor> plan_;
  std::vector<size_t> free_;                           ///< indices in plan_
  std::vector<bool> follows_embeddings_;               ///< one a free tensor; else it follows the weights
  uint64_t fixed_bytes_ = 0;                           ///< bytes of the quantized tensors that are not free
  uint64_t weights_ = 0;                               ///< weights of all quantized tensors
  std::vector<std::vector<MeasuredFormat>> measured_;  ///< one a free tensor
};

}  // namespace

BudgetChoice choose_by_budget(const Checkpoint& checkpoint, const BudgetRequest& request) {
  return Chooser(checkpoint, request).choose();
}

}  // namespace crumb
