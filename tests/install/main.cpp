// The smallest program that uses an installed Crumb.
#include <iostream>

#include "formats/error.h"

int main() {
  const crumb::Error error("hello from an installed crumb");
  std::cout << error.what() << '\n';
}
