// SPDX-License-Identifier: Apache-2.0
#include "kernel/memcg_scan.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <forestall_memcgs.skel.h>
#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "kernel/attach_types.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/bpf_run.h"
#include "kernel/memcg_counters.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {
namespace {

using MemcgsSkeleton = std::unique_ptr<forestall_memcgs, BpfDeleter<&forestall_memcgs::destroy>>;

Result<MemcgsSkeleton> load_memcgs(const KernelTypes& types) {
  const BpfLog log;
  const AttachTypes attach_types(types);
  const RelocationTypes relocation_types(types, forestall_memcgs__elf_bytes);
  LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = relocation_types.path());
  MemcgsSkeleton skeleton(forestall_memcgs__open_opts(&options));
  if (!skeleton) return errno_error("open", "BPF object of cgroups");
  skeleton->rodata->page_shift = page_shift();
  const int failure = forestall_memcgs__load(skeleton.get());
  if (failure == 0) return skeleton;
  return Error{-failure, "load BPF object of cgroups: " + summarize_bpf_log(log.text())};
}

// Of an array that the programs write.
Result<const void*> map_records(const bpf_map* map, std::size_t bytes) {
  const void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
  if (address == MAP_FAILED) return errno_error("mmap", bpf_map__name(map));
  return address;
}

std::string_view setup_problem(int result) {
  switch (result) {
    case 1: return "the root memory cgroup was not found";
    case 2: return "no NUMA node was found";
    default: return "this kernel has no sizes of LRU lists that BPF can read";
  }
}

Bytes bytes_of(std::uint64_t amount) {
  return Bytes{static_cast<std::int64_t>(amount)};
}

template <typename Amount>
void add(std::optional<Amount>& to, const std::optional<Amount>& part) {
  to = to && part ? std::optional(*to + *part) : std::nullopt;
}

MemcgUsage own_usage(const abi_memcg& record, bool anon, bool shmem) {
  MemcgUsage own{.cgroup = CgroupId{record.cgroup},
                 .usage = bytes_of(record.usage),
                 .inactive_file = std::nullopt,
                 .active_file = std::nullopt,
                 .anon = std::nullopt,
                 .shmem = std::nullopt,
                 .processes = std::nullopt,
                 .removed = (record.flags & ABI_MEMCG_REMOVED) != 0};
  if ((record.flags & ABI_MEMCG_FILES) != 0) {
    own.inactive_file = bytes_of(record.inactive_file);
    own.active_file = bytes_of(record.active_file);
  }
  if (anon) own.anon = Bytes{record.counters[ABI_MEMCG_ANON]};
  if (shmem) own.shmem = Bytes{record.counters[ABI_MEMCG_SHMEM]};
  if ((record.flags & ABI_MEMCG_PROCESSES) != 0) own.processes = record.processes;
  return own;
}

void add_child(MemcgUsage& parent, const MemcgUsage& child) {
  add(parent.inactive_file, child.inactive_file);
  add(parent.active_file, child.active_file);
  add(parent.anon, child.anon);
  add(parent.shmem, child.shmem);
  add(parent.processes, child.processes);
}

}  // namespace

Result<void> sum_subtrees(std::span<const abi_memcg> records, bool anon, bool shmem,
                          std::vector<std::uint32_t>& parents, std::vector<MemcgUsage>& sums) {
  sums.clear();
  parents.clear();
  std::uint32_t last = 0;
  for (const abi_memcg& record : records) {
    const auto at = static_cast<std::uint32_t>(sums.size());
    // Up from the record before to the parent of this one.
    std::uint32_t parent = last;
    std::uint32_t level = at == 0 ? 0 : records[last].level + 1;
    for (; level > record.level && parent != 0; --level) parent = parents[parent];
    if (level != record.level || (at != 0 && level == 0)) {
      sums.clear();
      return Error{EPROTO, "BPF pass over cgroups: not a tree"};
    }
    parents.push_back(parent);
    sums.push_back(own_usage(record, anon, shmem));
    last = at;
  }
  for (std::size_t i = sums.size(); i > 1; --i) add_child(sums[parents[i - 1]], sums[i - 1]);
  for (MemcgUsage& sum : sums) {
    if (sum.anon) sum.anon = std::max(*sum.anon, Bytes{0});
    if (sum.shmem) sum.shmem = std::max(*sum.shmem, Bytes{0});
  }
  return {};
}

// Runs that passes over processes leave: to open another iterator, the kernel allocates.
constexpr std::uint32_t kRunsKept = ABI_MEMCG_RUNS / 8;

class MemcgScan::Loaded {
 public:
  explicit Loaded(MemcgsSkeleton object) : skeleton(std::move(object)) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (records != nullptr) ::munmap(const_cast<abi_memcg*>(records), kRecordBytes);
    if (listed != nullptr) ::munmap(const_cast<abi_listed*>(listed), kListedBytes);
  }

  Result<void> start();
  Result<void> open_walk();
  // REQUIRES: runs_left.
  Result<void> read_once();
  [[nodiscard]] bool has_counter(abi_memcg_counter counter) const {
    return skeleton->bss->cpu_count != 0 && skeleton->data->stat_index[counter] >= 0;
  }

  MemcgsSkeleton skeleton;
  BpfLink pass;
  UniqueFd walk;  // of the pass, open
  std::uint32_t runs_left = 0;
  const abi_memcg* records = nullptr;
  const abi_listed* listed = nullptr;

 private:
  static constexpr std::size_t kRecordBytes = ABI_MEMCGS_MAX * sizeof(abi_memcg);
  static constexpr std::size_t kListedBytes = ABI_LISTED_MAX * sizeof(abi_listed);
  void learn_cpus();
  void learn_counters();
};

// On failure anonymous and shared memory are unknown.
void MemcgScan::Loaded::learn_cpus() {
  const auto cpus = possible_numbers("/sys/devices/system/cpu/possible");
  if (cpus.size() > std::size(skeleton->bss->cpu_offsets)) return;
  std::ranges::copy(cpus, skeleton->bss->cpu_offsets);
  skeleton->bss->cpu_count = static_cast<__u32>(cpus.size());
  const auto learnt = run_program(skeleton->progs.learn_cpus);
  const auto offsets = std::span(skeleton->bss->cpu_offsets).first(cpus.size());
  if (!learnt || *learnt != 0 || std::ranges::find(offsets, 0U) != offsets.end()) {
    skeleton->bss->cpu_count = 0;
  }
}

void MemcgScan::Loaded::learn_counters() {
  if (skeleton->bss->cpu_count == 0) return;
  const MemcgCounters found = find_memcg_counters([this](std::vector<std::int64_t>& states) {
    states.clear();
    const auto count = run_program(skeleton->progs.read_own_states);
    if (!count || *count <= 0) return;
    const auto own = std::span(skeleton->bss->own_states).first(static_cast<std::size_t>(*count));
    states.assign(own.begin(), own.end());
  });
  skeleton->data->stat_index[ABI_MEMCG_ANON] = found.anon.value_or(-1);
  skeleton->data->stat_index[ABI_MEMCG_SHMEM] = found.shmem.value_or(-1);
}

Result<void> MemcgScan::Loaded::start() {
  const int problem = TRY(run_program(skeleton->progs.setup_memcgs));
  if (problem != 0) return Error{ENOENT, std::string(setup_problem(problem))};
  learn_cpus();
  learn_counters();
  bpf_iter_link_info runs{};
  runs.map.map_fd = static_cast<__u32>(bpf_map__fd(skeleton->maps.runs));
  pass = TRY(attach_iterator(skeleton->progs.scan_memcgs, &runs));
  TRY(open_walk());
  records = static_cast<const abi_memcg*>(TRY(map_records(skeleton->maps.memcgs, kRecordBytes)));
  listed = static_cast<const abi_listed*>(TRY(map_records(skeleton->maps.listed, kListedBytes)));
  return {};
}

// The first read makes the kernel's buffer, and runs no pass: the state is not EMPTY.
Result<void> MemcgScan::Loaded::open_walk() {
  UniqueFd fresh(bpf_iter_create(bpf_link__fd(pass.get())));
  if (!fresh) return errno_error("bpf_iter_create", "cgroups");
  walk = std::move(fresh);
  runs_left = ABI_MEMCG_RUNS;
  skeleton->bss->memcgs_state = ABI_MEMCGS_DONE;
  return read_once();
}

Result<void> MemcgScan::Loaded::read_once() {
  char nothing = 0;
  if (::read(walk.get(), &nothing, 1) < 0) {
    runs_left = 0;
    return errno_error("read", "BPF pass over cgroups");
  }
  --runs_left;
  return {};
}

MemcgScan::MemcgScan(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
MemcgScan::~MemcgScan() = default;

Result<std::unique_ptr<MemcgScan>> MemcgScan::load(const KernelTypes& types) {
  auto loaded = std::make_unique<Loaded>(TRY(load_memcgs(types)));
  TRY(loaded->start());
  return std::unique_ptr<MemcgScan>(new MemcgScan(std::move(loaded)));
}

Result<void> MemcgScan::begin_at(int cgroup_fd) {
  loaded_->skeleton->bss->begin_id = 0;
  TRY(run_cgroup_iterator(loaded_->skeleton->progs.begin_at_cgroup, cgroup_fd));
  if (loaded_->skeleton->bss->begin_id == 0) {
    return Error{ENOENT, "BPF pass over cgroups: no memory controller"};
  }
  return {};
}

Result<void> MemcgScan::pass_once() {
  auto& bss = *loaded_->skeleton->bss;
  if (loaded_->runs_left == 0) {
    loaded_->walk.reset();  // its descriptor may be the last one
    TRY(loaded_->open_walk());
  }
  bss.memcgs_state = ABI_MEMCGS_EMPTY;
  TRY(loaded_->read_once());
  switch (bss.memcgs_state) {
    case ABI_MEMCGS_DONE: return {};
    case ABI_MEMCGS_EMPTY: return Error{ESRCH, "BPF pass over cgroups: it did not run"};
    case ABI_MEMCGS_GONE: return Error{ENOENT, "BPF pass over cgroups: its cgroup was removed"};
    case ABI_MEMCGS_FULL:
      return Error{EOVERFLOW, "BPF pass over cgroups: more than " + std::to_string(ABI_MEMCGS_MAX)};
    default: return Error{EAGAIN, "BPF pass over cgroups: torn"};
  }
}

Result<void> MemcgScan::run(const MemcgQuery& query) {
  auto& bss = *loaded_->skeleton->bss;
  bss.counters_wanted = query.counters ? 1 : 0;
  bss.list_of = 0;
  TRY(pass_once());
  return sum_subtrees(std::span(loaded_->records, bss.memcg_count),
                      query.counters && loaded_->has_counter(ABI_MEMCG_ANON),
                      query.counters && loaded_->has_counter(ABI_MEMCG_SHMEM), parents_, sums_);
}

void MemcgScan::renew() {
  if (loaded_->runs_left >= ABI_MEMCG_RUNS / 4) return;
  // If that fails, run() opens it and reports why it could not.
  static_cast<void>(loaded_->open_walk());
}

Result<void> MemcgScan::scan(const MemcgQuery& query) {
  sums_.clear();
  by_id_.clear();
  TRY(run(query));
  for (std::uint32_t i = 0; i < sums_.size(); ++i) by_id_.emplace_back(sums_[i].cgroup.inode, i);
  std::ranges::sort(by_id_);
  return {};
}

const MemcgUsage* MemcgScan::find(CgroupId cgroup) const {
  const auto found =
      std::ranges::lower_bound(by_id_, cgroup.inode, {}, &decltype(by_id_)::value_type::first);
  return found == by_id_.end() || found->first != cgroup.inode ? nullptr : &sums_[found->second];
}

Result<std::vector<ListedProcess>> MemcgScan::processes_in(CgroupId cgroup, CgroupVersion version) {
  const MonotonicTime began = SystemClock().now();
  // Those of the cgroup of the last list must not pass for this one's.
  loaded_->skeleton->bss->list_name_count = 0;
  if (!list_pause_.over(began)) {
    return Error{EBUSY, "BPF pass over processes: the last ones failed"};
  }
  // The rest is for passes over the memory.
  if (loaded_->runs_left <= kRunsKept) return Error{EBUSY, "BPF pass over processes: no run left"};
  auto& bss = *loaded_->skeleton->bss;
  bss.list_of = cgroup.inode;
  bss.list_v1 = version == CgroupVersion::v1 ? 1 : 0;
  const auto passed = pass_once();
  if (passed.ok()) {
    list_pause_.succeeded();
  } else {
    list_pause_.failed(began, SystemClock().now());
  }
  TRY(passed);
  if (bss.list_depth == 0) return Error{ENOENT, "BPF pass over processes: no such cgroup"};
  if (bss.listed_all == 0) {
    const bool full = bss.listed_count == ABI_LISTED_MAX;
    return Error{full ? EOVERFLOW : EAGAIN, "BPF pass over processes: incomplete"};
  }
  static const std::uint64_t tick_ns =
      1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  std::vector<ListedProcess> found;
  found.reserve(bss.listed_count);
  for (const abi_listed& each : std::span(loaded_->listed, bss.listed_count)) {
    found.push_back({each.pid, each.start_ns / tick_ns, each.apart != 0});
  }
  // A process that moves between cgroups meanwhile is met twice.
  std::ranges::sort(found, {}, &ListedProcess::pid);
  const auto repeated = std::ranges::unique(found, {}, &ListedProcess::pid);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

std::optional<std::string> MemcgScan::listed_path() const {
  const auto& bss = *loaded_->skeleton->bss;
  const std::uint32_t count = bss.list_name_count;
  if (count == 0 || count >= ABI_NAMES_MAX) return std::nullopt;
  std::string path;
  for (std::uint32_t i = count; i > 0; --i) path.append("/").append(bss.list_names[i - 1]);
  return path;
}

std::string MemcgScan::evidence() const {
  std::string text = "one pass reads usage, file pages and processes of all cgroups";
  if (!loaded_->has_counter(ABI_MEMCG_ANON))
    text += "; anonymous memory: its counter was not found";
  if (!loaded_->has_counter(ABI_MEMCG_SHMEM)) text += "; shared memory: its counter was not found";
  return text;
}

}  // namespace forestall::kernel
