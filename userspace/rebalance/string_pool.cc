// SPDX-License-Identifier: Apache-2.0
#include "rebalance/string_pool.h"

#include <algorithm>
#include <cstring>

#include "rebalance/amounts.h"

namespace forestall::rebalance {
namespace {

constexpr std::size_t kBlockSize = std::size_t{1} << 16;

}  // namespace

StringPool::StringPool() : kept_{kCpu, kMemory, kPods} {}

std::string_view StringPool::keep(std::string_view text) {
  if (text.empty()) return {};
  if (const auto found = kept_.find(text); found != kept_.end()) return *found;
  if (blocks_.empty() || size_ - used_ < text.size()) {
    size_ = std::max(kBlockSize, text.size());
    blocks_.push_back(std::make_unique<char[]>(size_));
    used_ = 0;
  }
  char* const place = blocks_.back().get() + used_;
  std::memcpy(place, text.data(), text.size());
  used_ += text.size();
  bytes_ += text.size();
  const std::string_view stored(place, text.size());
  kept_.insert(stored);
  return stored;
}

}  // namespace forestall::rebalance
