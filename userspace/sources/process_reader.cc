// SPDX-License-Identifier: Apache-2.0
// /proc does not show three facts, which are inferred:
// - an mm was reaped, or is its parent's during a vfork: oom_score is 0 where the figures would
//   give more;
// - a process is dying (mm/oom_kill.c task_will_free_mem): a SIGKILL is pending (complete_signal
//   and zap_other_threads leave one with each thread), or its last thread exits;
// - the OOM killer already selected it (signal->oom_mm): never detected. Such a process shows as
//   dying.
// Also not detected: a vfork without CAP_SYS_PTRACE, which shows as reaped (the kernel selects
// neither), MPOL_BIND policies, and a thread whose cpuset is not its leader's.
#include "sources/process_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <memory>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/rss_calibration.h"
#include "sources/shared_memory.h"

namespace forestall::sources {
namespace {

const std::int64_t kProcPageBytes = ::sysconf(_SC_PAGESIZE);

// A status is 1.5 KiB, except for a process in very many groups.
constexpr std::size_t kTextBytes = std::size_t{16} << 10;

// A tick is 10 ms on every architecture (USER_HZ is 100). Within one tick, ascending pids give the
// order of forks, except when the pids wrap.
constexpr std::uint64_t kProcessTickNs = 10'000'000;

bool has_ended(const Error& failure) {
  return failure.code == ENOENT || failure.code == ESRCH;
}

// Whether oom_score is above 0 if the process can be selected. With one step of margin: the kernel
// may count a little less than it prints (sources/process_text.h).
bool would_score(const ProcessSample& sample, Pages total_pages) {
  return total_pages > 0 && kernel::score_of(sample.points(total_pages), total_pages) > 1;
}

}  // namespace

// ---- CgroupFinder ----

CgroupId CgroupFinder::evaluate(std::string path) const {
  for (;;) {
    const auto directory = tree_.open(path);
    if (!directory) return {};
    if (tree_.version() == kernel::CgroupVersion::v1 || path == "/") return directory->id();
    if (::faccessat(directory->fd(), "memory.oom.group", F_OK, 0) == 0) return directory->id();
    const auto slash = path.rfind('/');
    path.resize(slash == 0 ? 1 : slash);
  }
}

CgroupId CgroupFinder::find(std::string_view path) {
  const auto [entry, fresh] = known_.try_emplace(std::string(path));
  if (fresh) entry->second = evaluate(entry->first);
  return entry->second;
}

// ---- ProcessReader ----

Result<ProcessReader> ProcessReader::open(const kernel::CgroupTree& tree, const std::string& proc) {
  UniqueFd fd(::open(proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open", proc);
  return ProcessReader(tree, std::move(fd));
}

void ProcessReader::begin(Pages total_pages) {
  total_pages_ = total_pages;
  cgroups_.forget();
  buffer_.resize(kTextBytes);
}

Result<std::string_view> ProcessReader::read_file(int directory, const char* file) {
  const UniqueFd fd(::openat(directory, file, O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", file);
  // Each of these files is one record, complete after a read that does not fill the buffer.
  const auto got = ::pread(fd.get(), buffer_.data(), buffer_.size(), 0);
  if (got < 0) return errno_error("read", file);
  const auto size = static_cast<std::size_t>(got);
  if (size < buffer_.size()) return std::string_view(buffer_.data(), size);
  return kernel::read_whole(fd.get(), buffer_, file);
}

Result<std::int64_t> ProcessReader::read_number(int directory, const char* file) {
  const auto text = TRY(read_file(directory, file));
  const auto value = parse_i64(trim(text));
  if (!value) return error(fmt::format("/proc/PID/{}: not a number", file));
  return *value;
}

Result<StatusText> ProcessReader::read_status(int directory) {
  const auto text = TRY(read_file(directory, "status"));
  return parse_status_text(text, kProcPageBytes);
}

Result<std::string> ProcessReader::cgroup_path(pid_t pid) {
  if (buffer_.empty()) buffer_.resize(kTextBytes);
  const auto file = fmt::format("{}/cgroup", pid);
  const auto text = read_file(proc_.get(), file.c_str());
  if (!text && has_ended(text.error())) return Error{ESRCH, file};
  if (!text) return text.error();
  return kernel::parse_cgroup_path(*text, tree_->version());
}

Result<CgroupId> ProcessReader::read_cgroup(int directory, const StatText& stat,
                                            CgroupId listed_in) {
  // On v1 an exiting task is shown in the root, whatever cgroup it is charged to
  // (kernel/cgroup/cgroup.c proc_cgroup_show).
  if (stat.exiting && tree_->version() == kernel::CgroupVersion::v1) return listed_in;
  const auto text = read_file(directory, "cgroup");
  // Some kernels refuse to print a path longer than PATH_MAX, others cut it.
  if (!text && text.error().code == ENAMETOOLONG) return listed_in;
  if (!text) return text.error();
  const auto path = kernel::parse_cgroup_path(*text, tree_->version());
  if (!path) return CgroupId{};
  if (path->size() + 1 < PATH_MAX) return cgroups_.find(*path);
  // On v1, a list also contains processes that have only a thread there.
  const bool is_exact = tree_->version() == kernel::CgroupVersion::v2 && listed_in != CgroupId{};
  return is_exact ? listed_in : cgroups_.find(path->substr(0, path->rfind('/')));
}

Result<bool> ProcessReader::any_thread(int directory,
                                       const std::function<Result<bool>(int, pid_t)>& found) {
  UniqueFd tasks(::openat(directory, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tasks) return errno_error("open", "task");
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(tasks.get()), ::closedir);
  if (!list) return errno_error("list", "task");
  const int list_fd = tasks.release();  // owned by the list from now on
  while (const dirent* entry = ::readdir(list.get())) {
    const auto number = parse_i64(entry->d_name);
    if (!number) continue;
    const UniqueFd thread(::openat(list_fd, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!thread) continue;
    const auto answer = found(thread.get(), static_cast<pid_t>(*number));
    if (!answer && !has_ended(answer.error())) return answer.error();
    if (answer && *answer) return true;
  }
  return false;
}

Result<std::optional<pid_t>> ProcessReader::thread_with_memory(int directory, StatusText& status,
                                                               StatText& stat) {
  std::optional<pid_t> found;
  const auto done = any_thread(directory, [&](int thread, pid_t number) -> Result<bool> {
    const auto own = TRY(read_status(thread));
    if (!own.memory) return false;
    status.memory = own.memory;
    status.core_dumping = own.core_dumping;
    status.kill_pending = own.kill_pending;
    status.nodes_allowed = own.nodes_allowed;
    const auto text = TRY(read_file(thread, "stat"));
    stat.layout = TRY(parse_stat_text(text)).layout;
    found = number;
    return true;
  });
  if (!done) return done.error();
  return found;
}

Result<bool> ProcessReader::dying(int directory, const StatText& stat, const StatusText& status) {
  if (!status.memory || status.core_dumping) return false;
  if (status.kill_pending) return true;
  if (!stat.exiting) return false;
  if (status.threads <= 1) return true;
  // The leader exits: determine whether all its threads exit too.
  return any_thread(directory, [&](int thread, pid_t) -> Result<bool> {
    return TRY(read_status(thread)).kill_pending;
  });
}

Result<Unkillable> ProcessReader::unkillable(int directory, const StatText& stat,
                                             const StatusText& status,
                                             const ProcessSample& sample) {
  const auto score = TRY(read_number(directory, "oom_score"));
  // The kernel does not spare pid 1 of a nested pid namespace.
  if (sample.id.pid == 1 && score == 0) return Unkillable::init;
  if (!status.memory) return Unkillable::no_memory;
  if (sample.oom_score_adj == kOomScoreAdjMin) return Unkillable::adjusted;
  if (score != 0 || !would_score(sample, total_pages_)) return Unkillable::none;
  // Detects an exit between the two reads. The stand-in of a dead leader is not checked again.
  if (status.threads <= 1 && !TRY(read_status(directory)).memory) return Unkillable::no_memory;
  if (stat.parent <= 0) return Unkillable::reaped;
  const auto to_parent = kcmp_memory(sample.id.pid, stat.parent);
  const bool with_parent = to_parent && *to_parent == std::strong_ordering::equal;
  return with_parent ? Unkillable::in_vfork : Unkillable::reaped;
}

Result<std::optional<ProcessReader::ProcessReadings>> ProcessReader::read_in(
    int directory, pid_t pid, CgroupId listed_in, const std::function<bool(CgroupId)>& wanted) {
  const auto stat_text = TRY(read_file(directory, "stat"));
  auto stat = TRY(parse_stat_text(stat_text));
  std::optional<ProcessReadings> none;
  if (stat.kernel_thread) return none;
  ProcessSample sample;
  sample.cgroup = TRY(read_cgroup(directory, stat, listed_in));
  if (!wanted(sample.cgroup)) return none;
  auto status = TRY(read_status(directory));
  if (status.group != pid) return none;
  pid_t thread = pid;
  if (!status.memory && status.threads > 1) {
    thread = TRY(thread_with_memory(directory, status, stat)).value_or(pid);
  }
  sample.id = {pid, stat.start_ticks};
  sample.order =
      stat.start_ticks * kProcessTickNs + static_cast<std::uint64_t>(pid) % kProcessTickNs;
  sample.comm = stat.comm;
  sample.uid = status.uid;
  sample.nodes_allowed = status.nodes_allowed;
  sample.memory = status.memory.value_or(ProcessMemory{});
  sample.oom_score_adj = static_cast<std::int32_t>(TRY(read_number(directory, "oom_score_adj")));
  sample.unkillable = TRY(unkillable(directory, stat, status, sample));
  if (sample.unkillable == Unkillable::no_memory) {
    sample.memory = {};
  } else {
    sample.dying = TRY(dying(directory, stat, status));
  }
  return std::optional(ProcessReadings{sample, stat.layout, thread});
}

Result<std::optional<ProcessReader::ProcessReadings>> ProcessReader::read(
    pid_t pid, CgroupId listed_in, const std::function<bool(CgroupId)>& wanted) {
  const auto name = fmt::format("{}", pid);
  const UniqueFd directory(::openat(proc_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory && errno == ENOENT) return std::optional<ProcessReadings>();
  if (!directory) return errno_error("open /proc/PID", name);
  auto reading = read_in(directory.get(), pid, listed_in, wanted);
  if (reading) return reading;
  if (has_ended(reading.error())) return std::optional<ProcessReadings>();
  return reading.error().in("/proc/" + name);
}

}  // namespace forestall::sources
