// SPDX-License-Identifier: Apache-2.0
#include "kernel/rss_calibration.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "kernel/held_file.h"

namespace forestall::kernel {
namespace {

// Steps to try. At each, both ways agree by chance with a probability of about one in the batch.
constexpr int kCalibrationTries = 8;
// Reads of the child on its way to one step: each growth misses by the page tables it needs.
constexpr int kEvaluations = 8;
// The last pages before a step, which the child touches one by one; each counts at once.
constexpr Pages kSingly = 512;
// Bound on the single pages of a child: 8 reads at 8 steps would need more than 8 MiB.
constexpr Pages kMostSingly = 1536;
// An area whose pages are mapped repeatedly: the kernel counts mappings, not pages.
constexpr Pages kShared = 64;

constexpr std::int64_t kAdjMost = 999;

Result<Pages> memory_and_swap() {
  std::string text;
  const HeldFile file = TRY(HeldFile::open(AT_FDCWD, "/proc/meminfo", "/proc/meminfo"));
  std::string_view rest = TRY(file.read(text));
  std::int64_t kib = 0;
  int found = 0;
  while (!rest.empty()) {
    std::string_view line = next_field(rest, '\n');
    const std::string_view name = next_word(line);
    if (name != "MemTotal:" && name != "SwapTotal:") continue;
    const auto amount = parse_i64(next_word(line));
    if (!amount) return error("/proc/meminfo: a total is not a number");
    kib += *amount;
    ++found;
  }
  if (found != 2 || kib <= 0) return error("/proc/meminfo: no totals");
  return kib / (::sysconf(_SC_PAGESIZE) / 1024);
}

// A request to the child: map this many shared pages, then touch this many of its own.
struct GrowOrder {
  Pages shared = 0;
  Pages own = 0;
};

// The child has only one thread of its multi-threaded parent, so until its end it may make only
// async-signal-safe calls. The parent maps the areas before the fork.
struct Growth {
  int orders = -1;
  int shared_file = -1;
  std::size_t page = 0;
  volatile unsigned char* own = nullptr;
};

[[noreturn]] void grow_to_order(pid_t parent, const Growth& growth) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  std::size_t at = 0;
  for (;;) {
    char done = 'd';
    if (send(growth.orders, &done, 1, MSG_NOSIGNAL) != 1) _exit(2);
    GrowOrder order;
    if (read(growth.orders, &order, sizeof(order)) != sizeof(order)) _exit(0);
    for (Pages left = order.shared; left > 0; left -= kShared) {
      const auto bytes = static_cast<std::size_t>(std::min(left, kShared)) * growth.page;
      const void* area =
          mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, growth.shared_file, 0);
      if (area == MAP_FAILED) _exit(3);
    }
    for (Pages left = order.own; left > 0; --left, at += growth.page) growth.own[at] = 1;
  }
}

class GrowingChild {
 public:
  static Result<std::unique_ptr<GrowingChild>> start(MonotonicTime deadline);
  GrowingChild(const GrowingChild&) = delete;
  GrowingChild& operator=(const GrowingChild&) = delete;
  ~GrowingChild() {
    if (pid_ >= 0) {
      // An unreaped child keeps its pid, so this needs no pidfd.
      kill(pid_, SIGKILL);
      while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (own_ != MAP_FAILED) munmap(own_, own_bytes());
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits until the child has grown.
  Result<void> grow(const GrowOrder& order);
  Result<void> adjust(std::int32_t oom_score_adj);
  Result<std::int64_t> number(const char* file);
  // Own pages that the child has not touched yet.
  [[nodiscard]] Pages left() const { return left_; }

 private:
  explicit GrowingChild(MonotonicTime deadline) : deadline_(deadline) {}
  Result<void> wait_done();
  [[nodiscard]] static std::size_t own_bytes() {
    return static_cast<std::size_t>(kMostSingly * ::sysconf(_SC_PAGESIZE));
  }

  MonotonicTime deadline_;
  pid_t pid_ = -1;
  void* own_ = MAP_FAILED;
  Pages left_ = kMostSingly;
  UniqueFd orders_;
  UniqueFd directory_;
  std::string text_;
};

Result<std::unique_ptr<GrowingChild>> GrowingChild::start(MonotonicTime deadline) {
  std::unique_ptr<GrowingChild> child(new GrowingChild(deadline));
  const long page = ::sysconf(_SC_PAGESIZE);
  const UniqueFd shared(memfd_create("forestall-calibration", MFD_CLOEXEC));
  if (!shared) return errno_error("memfd_create", "for calibration");
  if (ftruncate(shared.get(), kShared * page) != 0) return errno_error("ftruncate", "a memfd");
  child->own_ = mmap(nullptr, own_bytes(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (child->own_ == MAP_FAILED) return errno_error("mmap", "for calibration");
  // Each touched page must add exactly one page.
  madvise(child->own_, own_bytes(), MADV_NOHUGEPAGE);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("socketpair", "for calibration");
  }
  child->orders_ = UniqueFd(ends[0]);
  UniqueFd theirs(ends[1]);

  const Growth growth{theirs.get(), shared.get(), static_cast<std::size_t>(page),
                      static_cast<volatile unsigned char*>(child->own_)};
  const pid_t parent = getpid();
  child->pid_ = fork();
  if (child->pid_ < 0) return errno_error("fork", "a child to calibrate by");
  if (child->pid_ == 0) grow_to_order(parent, growth);
  theirs.reset();
  const std::string directory = "/proc/" + std::to_string(child->pid_);
  child->directory_ = UniqueFd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!child->directory_) return errno_error("open", directory);
  TRY(child->wait_done());
  return child;
}

Result<void> GrowingChild::wait_done() {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - SystemClock().now());
  pollfd ready{orders_.get(), POLLIN, 0};
  const int ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  char done = 0;
  if (poll(&ready, 1, ms) != 1) return Error{ETIMEDOUT, "waiting for the child"};
  if (::read(orders_.get(), &done, 1) != 1) return error("the child ended");
  return {};
}

Result<void> GrowingChild::grow(const GrowOrder& order) {
  if (order.own > left_) return error("the child has grown to its limit");
  left_ -= order.own;
  if (send(orders_.get(), &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order)) {
    return errno_error("send", "to the child");
  }
  return wait_done();
}

Result<void> GrowingChild::adjust(std::int32_t oom_score_adj) {
  const UniqueFd file(openat(directory_.get(), "oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!file) return errno_error("open", "oom_score_adj of the child");
  const std::string text = std::to_string(oom_score_adj);
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return errno_error("write", "oom_score_adj of the child");
  }
  return {};
}

Result<std::int64_t> GrowingChild::number(const char* file) {
  const HeldFile held = TRY(HeldFile::open(directory_.get(), file, file));
  const auto value = parse_i64(trim(TRY(held.read(text_))));
  if (!value) return error(std::string(file) + ": not a number");
  return *value;
}

struct Verdict {
  std::optional<RssCounting> counting;
  std::string evidence;
  RssCounting unproven = RssCounting::summed;  // used without a `counting`
};

// The experiment. REQUIRES: the child's counters are percpu_counters.
class Experiment {
 public:
  Experiment(const ReadTask& read, GrowingChild& child, Pages total)
      : read_(read), child_(child), total_(total) {}

  // No `counting` in the verdict: this step decided nothing, another one may.
  Result<Verdict> try_step();

 private:
  // Grows the child to `pages`, counted by sums; returns how many it has.
  Result<Pages> approach(Pages pages);

  const ReadTask& read_;
  GrowingChild& child_;
  Pages total_;
};

Result<Pages> Experiment::approach(Pages pages) {
  for (int evaluation = 0; evaluation < kEvaluations; ++evaluation) {
    const abi_task task = TRY(read_(child_.pid()));
    const Pages have = pages_of(task, RssCounting::summed);
    const Pages lacking = pages - have;
    if (lacking <= 0) return have;
    // Page tables add at most one page for every 512 mapped ones.
    const Pages shared = lacking > kSingly ? lacking - lacking / kSingly * 2 - kShared : 0;
    TRY(child_.grow(shared > 0 ? GrowOrder{shared, 0} : GrowOrder{0, lacking}));
  }
  return error("the child did not reach the step");
}

Result<Verdict> Experiment::try_step() {
  const auto adj = static_cast<std::int32_t>(TRY(child_.number("oom_score_adj")));
  const abi_task before = TRY(read_(child_.pid()));
  const Pages pages = pages_of(before, RssCounting::summed);
  const auto step = next_score_step(pages + 1, std::max(adj, 0), total_);
  if (!step) return error("no step of the score is near");
  TRY(child_.adjust(step->oom_score_adj));
  TRY(approach(step->pages));
  const abi_task task = TRY(read_(child_.pid()));
  const std::int64_t score = TRY(child_.number("oom_score"));
  const Pages worth = task.oom_score_adj * (total_ / 1000);
  const Pages counted = pages_of(task, RssCounting::counted);
  const Pages summed = pages_of(task, RssCounting::summed);
  const bool fits_counted = score_of(counted + worth, total_) == score;
  const bool fits_summed = score_of(summed + worth, total_) == score;
  Verdict verdict;
  verdict.evidence = "a child with " + std::to_string(counted) + " pages counted, " +
                     std::to_string(summed) + " summed, oom_score_adj " +
                     std::to_string(task.oom_score_adj) + " has oom_score " + std::to_string(score);
  if (fits_counted != fits_summed) {
    verdict.counting = fits_counted ? RssCounting::counted : RssCounting::summed;
  } else if (!fits_counted) {
    return error(verdict.evidence + ", which neither way of counting explains");
  }
  return verdict;
}

Result<Verdict> experiment(const ReadTask& read, MonotonicTime deadline) {
  const Pages total = TRY(memory_and_swap());
  const std::unique_ptr<GrowingChild> child = TRY(GrowingChild::start(deadline));
  const abi_task task = TRY(read(child->pid()));
  if ((task.flags & ABI_TASK_NO_SUM) != 0) {
    return Verdict{std::nullopt, "the CPUs' parts of the counters cannot be read",
                   RssCounting::counted};
  }
  if ((task.flags & ABI_TASK_ATOMIC) != 0) {
    return Verdict{RssCounting::counted,
                   "rss_stat consists of atomics: there is one way of counting"};
  }
  Experiment steps(read, *child, total);
  Verdict verdict;
  for (int i = 0; i < kCalibrationTries && !verdict.counting; ++i) verdict = TRY(steps.try_step());
  return verdict;
}

}  // namespace

std::string_view to_string(RssCounting counting) {
  return counting == RssCounting::counted ? "counted" : "summed";
}

Pages pages_of(const abi_task& task, RssCounting counting) {
  const auto& counters = counting == RssCounting::counted ? task.counted : task.summed;
  Pages pages = static_cast<Pages>(task.page_table_bytes) / ::sysconf(_SC_PAGESIZE);
  for (const Pages each : counters) pages += each;
  return pages;
}

std::int64_t score_of(Pages points, Pages total_pages) {
  return (1000 + points * 1000 / total_pages) * 2 / 3;
}

std::optional<ScoreStep> next_score_step(Pages from, std::int32_t least_adj, Pages total_pages) {
  const Pages unit = total_pages / 1000;
  if (unit == 0) return std::nullopt;
  std::optional<ScoreStep> nearest;
  for (std::int64_t adj = least_adj; adj <= kAdjMost; ++adj) {
    // The quotient points * 1000 / total reaches `k` at k * total / 1000 points, rounded up. The
    // score rises at two of three values of `k`.
    for (auto k = (from + adj * unit) * 1000 / total_pages;; ++k) {
      const Pages pages = (k * total_pages + 999) / 1000 - adj * unit;
      if (pages < from || (1000 + k) * 2 / 3 == (999 + k) * 2 / 3) continue;
      if (!nearest || pages < nearest->pages) {
        nearest = ScoreStep{static_cast<std::int32_t>(adj), pages};
      }
      break;
    }
  }
  return nearest;
}

Calibration calibrate_rss(const ReadTask& read, Duration patience) {
  const Result<Verdict> found = experiment(read, SystemClock().now() + patience);
  // If unproven, the sum: newer kernels use it, it is the exact figure, and the other one differs
  // from it by at most a batch per CPU.
  if (!found.ok()) return {RssCounting::summed, false, found.error().text()};
  return {found->counting.value_or(found->unproven), found->counting.has_value(), found->evidence};
}

}  // namespace forestall::kernel
