// SPDX-License-Identifier: Apache-2.0
#include "support/temp_tree.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace forestall::test {

TempTree::TempTree(std::initializer_list<std::pair<std::string, std::string>> files) {
  std::string name = std::filesystem::temp_directory_path() / "forestall-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  root_ = name;
  for (const auto& [path, content] : files) write(path, content);
}

TempTree::~TempTree() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

void TempTree::write(const std::string& relative, const std::string& content) const {
  const auto path = root_ / relative;
  if (relative.ends_with('/')) {
    std::filesystem::create_directories(path);
    return;
  }
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  if (!file.flush()) throw std::runtime_error("write " + path.string());
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("open " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace forestall::test
