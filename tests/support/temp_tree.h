// SPDX-License-Identifier: Apache-2.0
// A directory tree written as one literal in a new temporary directory; removed at the end.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

namespace forestall::test {

class TempTree {
 public:
  // Pairs of relative path and content; a path that ends in '/' is an empty directory.
  TempTree(std::initializer_list<std::pair<std::string, std::string>> files = {});
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;
  ~TempTree();

  [[nodiscard]] const std::filesystem::path& path() const { return root_; }
  [[nodiscard]] std::string operator/(const std::string& relative) const {
    return (root_ / relative).string();
  }
  // Writes (or overwrites in place, keeping the inode) one file, making its directories.
  void write(const std::string& relative, const std::string& content) const;

 private:
  std::filesystem::path root_;
};

// Whole text of a file; a failed read fails the test by throwing.
[[nodiscard]] std::string read_text(const std::string& path);

}  // namespace forestall::test
