#include "jobs/folder_files.h"

#include "base/files/inputs.h"
#include "base/files/output_place.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::jobs {

void claim_folder_files(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& folder,
                        std::initializer_list<const char*> written) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& input : inputs)
    if (!input.empty()) files.push_back(input);
  check_output_folder(folder);
  for (const char* name : written) {
    refuse_overwriting_inputs(files, folder / name);
    announce_output(folder / name);
  }
}

}  // namespace crumb::jobs
