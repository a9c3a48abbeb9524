// Names that nothing has yet.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace crumb::graph {

class FreshNames {
 public:
  void take(const std::string& name) { taken_.insert(name); }

  /// The name itself where it is free, else with a number; it is taken then.
  std::string unlike(const std::string& wish) {
    std::string name = wish;
    for (int& i = next_[wish]; !taken_.insert(name).second;) name = wish + "_" + std::to_string(++i);
    return name;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

}  // namespace crumb::graph
