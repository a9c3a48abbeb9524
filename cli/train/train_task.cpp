// crumb train task: trains the networks and data sets that Crumb has.
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "cli/flags/flag_group.h"
#include "cli/train/data_folder.h"
#include "cli/train/train.h"
#include "cli/train/train_network.h"

namespace crumb::cli {
namespace {

struct TrainTaskFlags {
  std::string task, network, data;
  NetworkTrainingFlags how;
};

void train_task_verb(const CLI::App& verb, const TrainTaskFlags& options) {
  check_network_training_flags(verb, options.how);
  if (std::ranges::find(tasks::kTasks, options.task) == std::end(tasks::kTasks))
    throw usage_error(unknown_name("task", options.task, tasks::kTasks));
  train_network(options.how, {.task = options.task,
                              .own = nullptr,
                              .network = options.network,
                              .data = data_folder(options.data),
                              .recipe = {},
                              .wrap_bits = {}});
}

}  // namespace

void add_train_task(CLI::App& train) {
  auto options = std::make_shared<TrainTaskFlags>();
  CLI::App* verb = train.add_subcommand("task", "Train a network of Crumb's own on its data set");
  verb->add_option(
          "task", options->task,
          "digits (pictures of digits, by an MLP or a CNN), jets (of particles), ocr (lines of digits, by "
          "an LSTM) or sr (super-resolution)")
      ->required()
      ->type_name("digits|jets|ocr|sr");
  flag_group(*verb, kInputFlags);
  verb->add_option("--network", options->network, "Of digits (mlp)")->type_name("mlp|cnn");
  verb->add_option("--data-dir", options->data,
                   "The folder with data sets (CRUMB_DATA, or what scripts/setup filled)")
      ->type_name("FOLDER");
  add_network_training_flags(*verb, options->how);
  verb->footer(network_training_footer() +
               "Example:\n"
               "  crumb train task digits -o digits_w4a4 --accumulator 10:a2q_plus\n"
               "  crumb train task digits -o sweep --sweep accumulator --seeds 3");
  verb->callback([options, verb] { train_task_verb(*verb, *options); });
}

}  // namespace crumb::cli
