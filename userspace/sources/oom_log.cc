// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_log.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace forestall::sources {
namespace {

// The maximum record size (kernel/printk/printk.c PRINTK_MESSAGE_MAX); read() with a smaller buffer
// fails with EINVAL.
constexpr std::size_t kRecordBytes = 8192;

// The maximum drift of the two clocks: more than NTP slews (500 ppm).
constexpr std::int64_t kDriftPart = 1000;

// Whether the node has no swap at all.
bool is_swapless() {
  struct sysinfo node {};
  return ::sysinfo(&node) == 0 && node.totalswap == 0;
}

}  // namespace

MonotonicTime LogClock::to_monotonic(Duration logged, MonotonicTime now) {
  const Duration seen = now.time_since_epoch() - logged;
  if (!offset_) {
    offset_ = seen;
  } else {
    offset_ = std::min(*offset_ + (now - learned_) / kDriftPart, seen);
  }
  learned_ = now;
  return MonotonicTime(logged + *offset_);
}

Result<std::unique_ptr<OomLog>> OomLog::open(const std::string& path) {
  UniqueFd log(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log) return errno_error("open", path);
  if (::lseek(log.get(), 0, SEEK_END) < 0) return errno_error("seek", path);
  return std::make_unique<OomLog>(std::move(log));
}

OomLog::OomLog(UniqueFd log)
    : log_(std::move(log)), text_(::sysconf(_SC_PAGESIZE)), buffer_(kRecordBytes) {}

Result<std::vector<std::string>> OomLog::arm(std::span<const Line>, MonotonicTime) {
  return std::vector<std::string>();
}

void OomLog::take(std::string_view record, bool swapless, MonotonicTime now,
                  std::vector<Wake>& wakes) {
  const auto parsed = parse_kernel_log_record(record);
  if (!parsed) return;
  if (next_sequence_ && parsed->sequence > *next_sequence_) {
    lost_ += parsed->sequence - *next_sequence_;
    text_.forget();
  }
  next_sequence_ = parsed->sequence + 1;
  const auto at = clock_.to_monotonic(parsed->at, now);
  const auto before = kills_.size();
  text_.take(*parsed, swapless, kills_);
  if (kills_.size() == before) return;
  kills_.back().at = at;
  wakes.push_back({WakeSource::oom_kill, at, std::nullopt, std::nullopt});
  if (kills_.size() > kKillsMax) {
    kills_.erase(kills_.begin());
    ++lost_;
  }
}

void OomLog::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  const bool swapless = is_swapless();
  for (std::size_t i = 0; i < kRecordsMax; ++i) {
    const auto got = ::read(log_.get(), buffer_.data(), buffer_.size());
    if (got > 0) {
      take({buffer_.data(), static_cast<std::size_t>(got)}, swapless, now, wakes);
      continue;
    }
    // EPIPE: the next record was overwritten, and the next read returns the oldest one left. Its
    // sequence number shows how many were lost.
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;
    return;
  }
}

std::vector<OomKillEvent> OomLog::take_kills() {
  return std::exchange(kills_, {});
}

}  // namespace forestall::sources
