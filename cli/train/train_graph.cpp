// crumb train graph: trains a network of the user's own.
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/train/train.h"
#include "cli/train/train_network.h"
#include "cli/train/train_own.h"
#include "jobs/folder_files.h"
#include "training/run_folder.h"

namespace crumb::cli {
namespace {

struct TrainGraphFlags {
  std::string model;
  OwnNetworkFlags own;
  NetworkTrainingFlags how;
};

void train_graph_verb(const CLI::App& verb, const TrainGraphFlags& options) {
  check_network_training_flags(verb, options.how);
  std::vector<std::filesystem::path> inputs{options.model};
  add_own_network_files(options.own, inputs);
  jobs::claim_folder_files(inputs, options.how.output,
                           options.how.float_only ? training::kFloatFiles : training::kTaskFiles);
  train_network(options.how, {.task = std::string(tasks::kOwnTask),
                              .own = read_own_network(options.model, options.own),
                              .network = {},
                              .data = {},
                              .recipe = {},
                              .wrap_bits = {}});
}

}  // namespace

void add_train_graph(CLI::App& train) {
  auto options = std::make_shared<TrainGraphFlags>();
  CLI::App* verb = train.add_subcommand("graph", "Train a network of yours, an ONNX file, on arrays");
  verb->add_option("model", options->model, "The network (.onnx, .crumb, or a TorchScript archive)")
      ->required()
      ->type_name("FILE");
  add_own_network_flags(*verb, options->own);
  add_network_training_flags(*verb, options->how);
  verb->footer(
      network_training_footer() +
      "Example:\n"
      "  crumb train graph net.onnx --data x.npy --labels y.npy --loss ce -o net_w4a4\n"
      "  crumb train graph net.onnx --data image=i.npy --data past=p.npy --labels class=c.npy --loss "
      "ce -o out");
  verb->callback([options, verb] { train_graph_verb(*verb, *options); });
}

}  // namespace crumb::cli
