// The main function of every doctest executable. Beyond doctest's own report it prints what scripts/test
// counts:
//
//   skipped: <executable>: <test case>: <reason>
//   <executable>: N passed, N failed, N skipped
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "tests/support/testing.h"

namespace {

/// Counts test cases; what was skipped, by test case.
struct Tally {
  int finished = 0;
  int failed = 0;
  std::string current;
  std::map<std::string, std::string> skipped;
};

Tally& tally() {
  static Tally instance;
  return instance;
}

struct TallyListener : doctest::IReporter {
  explicit TallyListener(const doctest::ContextOptions& /*options*/) {}
  void test_case_start(const doctest::TestCaseData& test) override { tally().current = test.m_name; }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    tally().finished++;
    if (stats.testCaseSuccess) return;
    tally().failed++;
    tally().skipped.erase(tally().current);
  }
  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}
};

}  // namespace

REGISTER_LISTENER("tally", 1, TallyListener);

void crumb::testing::skip(const std::string& reason) { tally().skipped[tally().current] = reason; }

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (context.shouldExit()) return status;  // a query such as --list-test-cases

  const std::string name = std::filesystem::path(argv[0]).filename().string();
  for (const auto& [test, reason] : tally().skipped) {
    std::cout << "skipped: " << name << ": " << test << ": " << reason << '\n';
  }
  const int skipped = static_cast<int>(tally().skipped.size());
  std::cout << name << ": " << tally().finished - tally().failed - skipped << " passed, " << tally().failed
            << " failed, " << skipped << " skipped" << std::endl;
  return status;
}
