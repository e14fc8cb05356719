// SPDX-License-Identifier: Apache-2.0
// Stores each distinct string of a snapshot once: names of nodes, labels and resources repeat in
// every pod of a cluster.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace forestall::rebalance {

class StringPool {
 public:
  // With the names of the resources that every node has.
  StringPool();
  StringPool(const StringPool&) = delete;
  StringPool& operator=(const StringPool&) = delete;

  // The same text, valid as long as the pool.
  [[nodiscard]] std::string_view keep(std::string_view text);
  // About the memory of all kept texts.
  [[nodiscard]] std::size_t bytes() const { return bytes_ + kept_.size() * kEntryBytes; }

 private:
  // Of an entry of the set: the view, its hash and two pointers.
  static constexpr std::size_t kEntryBytes = 48;

  std::unordered_set<std::string_view> kept_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;  // of the last block
  std::size_t size_ = 0;
};

}  // namespace forestall::rebalance
