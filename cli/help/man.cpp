// crumb man: writes the manual pages of the command and its verbs.
#include <filesystem>
#include <iostream>

#include "base/files/write_text_file.h"
#include "cli/flags/verb.h"
#include "cli/help/help_format.h"
#include "cli/help/man_page.h"

namespace crumb::cli {
namespace {

/// Writes the verb's page and those of its subcommands. Returns their number.
std::size_t write_pages(const CLI::App& verb, const std::filesystem::path& folder) {
  write_text_file(folder / (page_name(verb) + ".1"), man_page(verb));
  std::size_t count = 1;
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App* app) { return is_shown(*app); }))
    count += write_pages(*below, folder);
  return count;
}

}  // namespace

void add_man(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("man", "Write the manual pages of crumb and its verbs into a folder");
  verb->add_option("folder", *folder, "The folder, which is made where it is not there")
      ->required()
      ->type_name("FOLDER");
  verb->footer("Example:\n  crumb man pages && man pages/crumb-quantize.1");
  verb->callback([&app, folder] {
    std::filesystem::create_directories(*folder);
    std::cout << write_pages(app, *folder) << " pages: " << *folder << "\n";
  });
}

}  // namespace crumb::cli
