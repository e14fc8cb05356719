// SPDX-License-Identifier: Apache-2.0
#include "rebalance/nodes_by_use.h"

#include <algorithm>

namespace forestall::rebalance {
namespace {

constexpr std::size_t kChunk = 64;
constexpr std::size_t kChunkMax = 2 * kChunk;

}  // namespace

NodesByUse::NodesByUse(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  for (std::size_t from = 0; from < entries.size(); from += kChunk) {
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(from);
    const std::size_t count = std::min(kChunk, entries.size() - from);
    chunks_.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
    firsts_.push_back(*first);
  }
}

std::size_t NodesByUse::chunk_of(const Entry& entry) const {
  const auto above = std::upper_bound(firsts_.begin(), firsts_.end(), entry);
  return above == firsts_.begin() ? 0 : static_cast<std::size_t>(above - firsts_.begin()) - 1;
}

void NodesByUse::insert(const Entry& entry) {
  if (chunks_.empty()) {
    chunks_.push_back({entry});
    firsts_.push_back(entry);
    return;
  }
  const std::size_t at = chunk_of(entry);
  std::vector<Entry>& chunk = chunks_[at];
  chunk.insert(std::upper_bound(chunk.begin(), chunk.end(), entry), entry);
  set_first(at);
  if (chunk.size() <= kChunkMax) return;
  const auto middle = chunk.begin() + kChunk;
  std::vector<Entry> rest(middle, chunk.end());
  chunk.erase(middle, chunk.end());
  const auto next = static_cast<std::ptrdiff_t>(at) + 1;
  firsts_.insert(firsts_.begin() + next, rest.front());
  chunks_.insert(chunks_.begin() + next, std::move(rest));
}

void NodesByUse::move(const Entry& from, const Entry& to) {
  if (from == to) return;
  const std::size_t at = chunk_of(from);
  std::vector<Entry>& chunk = chunks_[at];
  chunk.erase(std::lower_bound(chunk.begin(), chunk.end(), from));
  if (chunk.empty()) {
    const auto gone = static_cast<std::ptrdiff_t>(at);
    chunks_.erase(chunks_.begin() + gone);
    firsts_.erase(firsts_.begin() + gone);
  } else {
    set_first(at);
  }
  insert(to);
}

}  // namespace forestall::rebalance
