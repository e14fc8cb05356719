// SPDX-License-Identifier: Apache-2.0
#include "actuators/rule_settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <mutex>
#include <utility>
#include <variant>

#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "kernel/cgroup_freeze.h"
#include "kernel/memory_high.h"

namespace forestall::actuators {
namespace {

// A write of more holds the thread for long: with slow swap 32 MiB take about a second.
constexpr Bytes kPiece = mib(32);
// Results beyond this number are dropped, the newest ones: the loop takes them at each evaluation.
constexpr std::size_t kResultsMax = 256;

const char* file_of(RuleSetting::Kind kind) {
  return kind == RuleSetting::Kind::throttle ? "memory.high" : "cgroup.freeze";
}

Result<void> undo_setting(std::variant<kernel::MemoryHigh, kernel::CgroupFreeze>& held) {
  if (auto* high = std::get_if<kernel::MemoryHigh>(&held)) return high->restore();
  return std::get<kernel::CgroupFreeze>(held).thaw();
}

}  // namespace

// What the thread has set.
class RuleSettingsThread::Writer {
 public:
  explicit Writer(RuleSettingsThread& owner) : owner_(owner) {}

  // Undoes what is not wanted any more, then makes what is new. What failed is not tried again
  // while it is wanted: each piece of a reclaim applies the settings, too.
  void apply(const std::vector<RuleSetting>& wanted) {
    std::erase_if(failed_, [&](const RuleSetting& each) {
      return std::ranges::find(wanted, each) == wanted.end();
    });
    std::erase_if(held_, [&](Held& each) {
      if (std::ranges::find(wanted, each.setting) != wanted.end()) return false;
      report(each.setting, undo_setting(each.made));
      return true;
    });
    for (const RuleSetting& each : wanted) {
      if (std::ranges::find(held_, each, &Held::setting) != held_.end()) continue;
      if (std::ranges::find(failed_, each) != failed_.end()) continue;
      const auto made = make(each);
      if (!made) failed_.push_back(each);
      report(each, made);
    }
  }

  // One piece; false: it is over.
  bool reclaim_piece(RuleReclaim& left, Bytes& reclaimed, std::optional<Error>& failure) const {
    const auto cgroup = open(left.cgroup, left.path);
    if (!cgroup) {
      failure = cgroup.error();
      return false;
    }
    const UniqueFd file(
        ::openat(cgroup->fd(), "memory.reclaim", O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
      failure = errno_error("open", left.path + "/memory.reclaim");
      return false;
    }
    const Bytes piece = std::min(left.amount, kPiece);
    const std::string text = std::to_string(piece.count);
    // EAGAIN: less could be reclaimed than the piece, so the rest is not tried either.
    if (::write(file.get(), text.data(), text.size()) < 0) {
      if (errno != EAGAIN) failure = errno_error("write", left.path + "/memory.reclaim");
      return false;
    }
    reclaimed += piece;
    left.amount -= piece;
    return left.amount > Bytes{0};
  }

 private:
  struct Held {
    RuleSetting setting;
    std::variant<kernel::MemoryHigh, kernel::CgroupFreeze> made;
  };

  // ENODEV: it was removed, or another one is at its path.
  [[nodiscard]] Result<kernel::CgroupDir> open(CgroupId id, const std::string& path) const {
    auto cgroup = TRY(owner_.tree_.open(path));
    if (cgroup.id() != id) return Error{ENODEV, path + " was removed"};
    return cgroup;
  }

  Result<void> make(const RuleSetting& wanted) {
    const auto cgroup = TRY(open(wanted.cgroup, wanted.path));
    if (wanted.kind == RuleSetting::Kind::freeze) {
      held_.push_back({wanted, TRY(kernel::CgroupFreeze::freeze(cgroup, owner_.records_.frozen))});
      return {};
    }
    auto high = TRY(kernel::MemoryHigh::open(cgroup, owner_.records_.high));
    TRY(high.set(wanted.high));
    held_.push_back({wanted, std::move(high)});
    return {};
  }

  void report(const RuleSetting& setting, const Result<void>& done) {
    if (done || kernel::is_removed(done.error())) return;
    owner_.add_result({setting.path, file_of(setting.kind), {}, {}, done.error()});
  }

  RuleSettingsThread& owner_;
  std::list<Held> held_;
  std::vector<RuleSetting> failed_;
};

Result<void> RuleSettings::start() {
  return Error{ENOTSUP, "cgroup v1 has no memory.high, cgroup.freeze and memory.reclaim"};
}

Result<void> RuleSettingsThread::start() {
  if (thread_.joinable()) return {};
  changed_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!changed_) return errno_error("eventfd", "for the settings of rulesets");
  const base::BlockedSignals none_for_the_thread;
  thread_ = TRY(start_thread("forestall-rules", [this] { serve(); }));
  wake();  // an earlier start may have failed, and work may wait since
  return {};
}

RuleSettingsThread::~RuleSettingsThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    work_.stop = true;
  }
  wake();
  thread_.join();
}

void RuleSettingsThread::wake() const {
  if (changed_) ::eventfd_write(changed_.get(), 1);
}

void RuleSettingsThread::apply(std::vector<RuleSetting> wanted) {
  if (wanted == last_) return;
  last_ = wanted;
  {
    const std::lock_guard lock(mutex_);
    work_.settings.swap(wanted);
  }
  wake();
}

void RuleSettingsThread::reclaim(std::vector<RuleReclaim> wanted) {
  if (wanted.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    work_.reclaims.swap(wanted);
  }
  may_reclaim_ = true;
  wake();
}

void RuleSettingsThread::cancel_reclaims() {
  if (!std::exchange(may_reclaim_, false)) return;
  const std::lock_guard lock(mutex_);
  work_.reclaims.clear();
  work_.cancels = true;  // seen between two pieces
}

std::vector<RuleSettingResult> RuleSettingsThread::take_results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

RuleSettingsThread::Work RuleSettingsThread::take_work() {
  const std::lock_guard lock(mutex_);
  return {work_.settings, std::exchange(work_.reclaims, {}), std::exchange(work_.cancels, false),
          work_.stop};
}

void RuleSettingsThread::add_result(RuleSettingResult result) {
  const std::lock_guard lock(mutex_);
  if (results_.size() < kResultsMax) results_.push_back(std::move(result));
}

void RuleSettingsThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-rules");
  // The thread inherits the loop's real-time priority, and reclaim may take long.
  const sched_param ordinary{};
  pthread_setschedparam(pthread_self(), SCHED_OTHER, &ordinary);
  Writer writer(*this);  // its destructor undoes every setting
  for (;;) {
    eventfd_t ignored = 0;
    if (::eventfd_read(changed_.get(), &ignored) != 0) continue;
    Work work = take_work();
    if (work.stop) return;
    writer.apply(work.settings);
    while (!work.reclaims.empty()) {
      if (!reclaim_first(writer, work.reclaims)) return;
    }
  }
}

bool RuleSettingsThread::reclaim_first(Writer& writer, std::vector<RuleReclaim>& reclaims) {
  RuleReclaim left = reclaims.front();
  reclaims.erase(reclaims.begin());
  RuleSettingResult result{left.path, "memory.reclaim", left.amount, {}, {}};
  while (writer.reclaim_piece(left, result.reclaimed, result.failure)) {
    Work now = take_work();
    if (now.stop) return false;
    writer.apply(now.settings);
    std::erase_if(now.reclaims,
                  [&](const RuleReclaim& each) { return each.cgroup == left.cgroup; });
    if (now.cancels || !now.reclaims.empty()) reclaims = std::move(now.reclaims);
    if (now.cancels) break;
  }
  if (!result.failure || !kernel::is_removed(*result.failure)) add_result(std::move(result));
  return true;
}

}  // namespace forestall::actuators
