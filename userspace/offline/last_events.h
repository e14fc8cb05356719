// SPDX-License-Identifier: Apache-2.0
// The last events of a recording. It keeps no more than are printed, so that the memory for the end
// of a large recording does not depend on its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace forestall::cli {

// `Item`: what is kept of an event. Thread rule: one thread.
template <typename Item>
class LastEvents {
 public:
  // 0: keeps all.
  explicit LastEvents(std::uint64_t limit) : limit_(limit) {}

  // `run`: clocks of different runs cannot be compared. Events of the same time stay in the order
  // in which they were added.
  void add(std::size_t run, std::int64_t at_ns, Item item) {
    items_.emplace(Key{run, at_ns, added_++}, std::move(item));
    if (limit_ > 0 && items_.size() > limit_) items_.erase(items_.begin());
  }
  // Oldest first.
  template <typename Visit>
  void visit(Visit visit) const {
    for (const auto& [key, item] : items_) visit(item);
  }
  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  using Key = std::tuple<std::size_t, std::int64_t, std::uint64_t>;

  const std::uint64_t limit_;
  std::uint64_t added_ = 0;
  std::map<Key, Item> items_;
};

}  // namespace forestall::cli
