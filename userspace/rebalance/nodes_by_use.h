// SPDX-License-Identifier: Apache-2.0
// Nodes in the order of their use. Few neighbours move when one changes its place, and a search
// reads them in the order of memory.
#pragma once

#include <cstddef>
#include <vector>

namespace forestall::rebalance {

class NodesByUse {
 public:
  // Trivial, so that entries move as bytes.
  struct Entry {
    double use = 0;
    std::size_t node = 0;

    friend bool operator==(const Entry&, const Entry&) = default;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.use < b.use || (a.use == b.use && a.node < b.node);
    }
  };

  NodesByUse() = default;
  // Each node once.
  explicit NodesByUse(std::vector<Entry> entries);

  // REQUIRES: `from` is there.
  void move(const Entry& from, const Entry& to);

  // Calls `visit(node)` in order, of equal use by index, until it returns false. False: it did.
  template <typename Visit>
  bool each(Visit visit) const {
    for (const std::vector<Entry>& chunk : chunks_) {
      for (const Entry& each : chunk) {
        if (!visit(each.node)) return false;
      }
    }
    return true;
  }

 private:
  // The last one whose first entry is not above; the first one: there is none.
  [[nodiscard]] std::size_t chunk_of(const Entry& entry) const;
  void insert(const Entry& entry);

  void set_first(std::size_t chunk) { firsts_[chunk] = chunks_[chunk].front(); }

  std::vector<std::vector<Entry>> chunks_;  // sorted; none is empty
  std::vector<Entry> firsts_;               // of each chunk
};

}  // namespace forestall::rebalance
