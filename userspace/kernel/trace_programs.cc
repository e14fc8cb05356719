// SPDX-License-Identifier: Apache-2.0
#include "kernel/trace_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <forestall_trace.skel.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/parse.h"
#include "kernel/attach_types.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/bpf_plan.h"
#include "kernel/bpf_run.h"
#include "kernel/held_file.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {
namespace {

// A program, the kind it serves and the hook it is attached to.
struct TraceProgram {
  const char* name;
  abi_trace_kind kind;
  Hook hook;
  const char* target;
};

// The programs that count pages serve several kinds of reclaim, so they are listed for each.
constexpr auto kTracePrograms = std::to_array<TraceProgram>({
    {"memcg_reclaim_begin", ABI_TRACE_memcg_reclaim, Hook::tracepoint,
     "mm_vmscan_memcg_reclaim_begin"},
    {"memcg_reclaim_end", ABI_TRACE_memcg_reclaim, Hook::tracepoint, "mm_vmscan_memcg_reclaim_end"},
    {"lru_isolate", ABI_TRACE_memcg_reclaim, Hook::tracepoint, "mm_vmscan_lru_isolate"},
    {"lru_shrink_inactive", ABI_TRACE_memcg_reclaim, Hook::tracepoint,
     "mm_vmscan_lru_shrink_inactive"},
    {"forget_task", ABI_TRACE_memcg_reclaim, Hook::tracepoint, "sched_process_exit"},
    {"direct_reclaim_begin", ABI_TRACE_direct_reclaim, Hook::tracepoint,
     "mm_vmscan_direct_reclaim_begin"},
    {"direct_reclaim_end", ABI_TRACE_direct_reclaim, Hook::tracepoint,
     "mm_vmscan_direct_reclaim_end"},
    {"lru_isolate", ABI_TRACE_direct_reclaim, Hook::tracepoint, "mm_vmscan_lru_isolate"},
    {"lru_shrink_inactive", ABI_TRACE_direct_reclaim, Hook::tracepoint,
     "mm_vmscan_lru_shrink_inactive"},
    {"forget_task", ABI_TRACE_direct_reclaim, Hook::tracepoint, "sched_process_exit"},
    // The end first: a begin without its end would last until the next begin.
    {"kswapd_sleep", ABI_TRACE_kswapd, Hook::tracepoint, "mm_vmscan_kswapd_sleep"},
    {"kswapd_wake", ABI_TRACE_kswapd, Hook::tracepoint, "mm_vmscan_kswapd_wake"},
    {"lru_isolate", ABI_TRACE_kswapd, Hook::tracepoint, "mm_vmscan_lru_isolate"},
    {"lru_shrink_inactive", ABI_TRACE_kswapd, Hook::tracepoint, "mm_vmscan_lru_shrink_inactive"},
    {"memstall_enter", ABI_TRACE_stall, Hook::function, "psi_memstall_enter"},
    {"memstall_leave", ABI_TRACE_stall, Hook::function, "psi_memstall_leave"},
    {"forget_task", ABI_TRACE_stall, Hook::tracepoint, "sched_process_exit"},
    {"compaction_begin", ABI_TRACE_compaction, Hook::tracepoint, "mm_compaction_begin"},
    {"compaction_end", ABI_TRACE_compaction, Hook::tracepoint, "mm_compaction_end"},
    {"forget_task", ABI_TRACE_compaction, Hook::tracepoint, "sched_process_exit"},
    {"throttled", ABI_TRACE_throttled, Hook::tracepoint, "mm_vmscan_throttled"},
    {"mark_victim", ABI_TRACE_oom_kill, Hook::tracepoint, "mark_victim"},
    {"cgroup_mkdir", ABI_TRACE_path, Hook::tracepoint, "cgroup_mkdir"},
    {"cgroup_rename", ABI_TRACE_path, Hook::tracepoint, "cgroup_rename"},
    {"cgroup_rmdir", ABI_TRACE_removed, Hook::tracepoint, "cgroup_rmdir"},
});

using TraceSkeleton = std::unique_ptr<forestall_trace, BpfDeleter<&forestall_trace::destroy>>;

// hierarchy_id of the memory controller's v1 hierarchy; 0, cgroup2's, if it has none.
// /proc/cgroups: name, hierarchy, number of cgroups, enabled.
std::int32_t memory_hierarchy(const CgroupTree& tree) {
  if (tree.version() == CgroupVersion::v2) return 0;
  std::string text;
  const auto file = HeldFile::open(AT_FDCWD, "/proc/cgroups", "/proc/cgroups");
  if (!file.ok()) return 0;
  const auto read = file->read(text);
  if (!read.ok()) return 0;
  std::string_view rest = *read;
  while (!rest.empty()) {
    std::string_view line = next_field(rest, '\n');
    if (next_field(line, '\t') != "memory") continue;
    return static_cast<std::int32_t>(parse_u64(next_field(line, '\t')).value_or(0));
  }
  return 0;
}

bpf_link** link_of(const forestall_trace& skeleton, std::string_view program) {
  const bpf_object_skeleton& list = *skeleton.skeleton;
  for (int i = 0; i < list.prog_cnt; ++i) {
    if (program == list.progs[i].name) return list.progs[i].link;
  }
  return nullptr;
}

abi_trace_sum sum_of(const std::vector<abi_trace_sum>& cpus) {
  abi_trace_sum sum{};
  for (const abi_trace_sum& cpu : cpus) {
    sum.count += cpu.count;
    sum.ns += cpu.ns;
    sum.longest_ns = std::max(sum.longest_ns, cpu.longest_ns);
    sum.scanned += cpu.scanned;
    sum.taken += cpu.taken;
    sum.reclaimed += cpu.reclaimed;
    for (std::size_t i = 0; i < ABI_TRACE_BUCKETS; ++i) sum.buckets[i] += cpu.buckets[i];
  }
  return sum;
}

}  // namespace

class TracePrograms::Loaded {
 public:
  Result<void> load(const TraceSelection& selection, const CgroupTree& tree,
                    const FeatureSet& disabled);

  TraceSkeleton skeleton;
  BpfRing ring;
  std::vector<TraceKindReport> reports;
  const std::function<void(const abi_trace_event&)>* visit = nullptr;
  std::size_t visited = 0;

 private:
  void plan(const TraceSelection& selection, const FeatureSet& disabled);
  Result<void> try_load(const TraceSelection& selection, std::int32_t hierarchy);
  void attach();
  void attach_kind(TraceKindReport& report);
  [[nodiscard]] bool wanted(std::string_view program) const;
  [[nodiscard]] bool needs_functions() const;
  Result<void> open_ring();

  KernelTypes types_;
};

// Decides for each kind from the operator's options and from BTF.
void TracePrograms::Loaded::plan(const TraceSelection& selection, const FeatureSet& disabled) {
  for (std::size_t i = 0; i < ABI_TRACE_KIND_COUNT; ++i) {
    if (!selection.kinds.test(i)) continue;
    TraceKindReport report{static_cast<abi_trace_kind>(i)};
    for (const TraceProgram& program : kTracePrograms) {
      if (program.kind != report.kind || report.state != FeatureState::in_use) continue;
      if (program.hook == Hook::function && has(disabled, Feature::bpf_stall)) {
        report = {report.kind, FeatureState::forced_off, "--disable-feature bpf_stall"};
      } else if (program.kind == ABI_TRACE_stall && !psi_is_on()) {
        report = {report.kind, FeatureState::absent, std::string(kPsiIsOff)};
      } else if (!offers(types_, program.hook, program.target)) {
        report = {report.kind, FeatureState::absent,
                  std::string("BTF of this kernel has no ") + program.target};
      }
    }
    reports.push_back(std::move(report));
  }
}

bool TracePrograms::Loaded::wanted(std::string_view name) const {
  return std::ranges::any_of(kTracePrograms, [&](const TraceProgram& program) {
    return program.name == name && std::ranges::any_of(reports, [&](const auto& report) {
             return report.kind == program.kind && report.state == FeatureState::in_use;
           });
  });
}

bool TracePrograms::Loaded::needs_functions() const {
  return wanted("memstall_enter");
}

Result<void> TracePrograms::Loaded::try_load(const TraceSelection& selection,
                                             std::int32_t hierarchy) {
  const BpfLog log;
  const AttachTypes attach_types(types_);
  const RelocationTypes relocation_types(types_, forestall_trace__elf_bytes);
  LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = relocation_types.path());
  skeleton.reset(forestall_trace__open_opts(&options));
  if (!skeleton) return errno_error("open", "BPF object of the tracer");
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton->obj) {
    bpf_program__set_autoload(program, wanted(bpf_program__name(program)));
  }
  auto& out = *skeleton->rodata;
  out.shortest_ns = static_cast<__u64>(selection.shortest.count());
  out.reports_events = selection.reports_events ? 1 : 0;
  out.reports_begins = selection.reports_begins ? 1 : 0;
  out.sums = selection.sums ? 1 : 0;
  out.filters = selection.filters ? 1 : 0;
  out.hierarchy = hierarchy;
  out.lru_argument = types_.tracepoint_arguments("mm_vmscan_lru_isolate") - 1;
  out.page_shift = page_shift();
  out.reclaim_passes_memcg =
      types_.tracepoint_arguments("mm_vmscan_memcg_reclaim_begin") >= 3 ? 1 : 0;
  out.mark_victim_passes_task = types_.tracepoint_passes_pointer("mark_victim") ? 1 : 0;
  bpf_map__set_max_entries(skeleton->maps.records, static_cast<__u32>(selection.ring_bytes));
  const int failure = forestall_trace__load(skeleton.get());
  if (failure == 0) return {};
  // The summary contains the reason.
  if (const std::string refusal = summarize_bpf_log(log.text()); !refusal.empty()) {
    return error("load BPF object of the tracer: " + refusal);
  }
  return Error{-failure, "load BPF object of the tracer"};
}

// All of its programs or none: half a pair would leave spans open.
void TracePrograms::Loaded::attach_kind(TraceKindReport& report) {
  const BpfLog log;
  std::string hooks;
  for (const TraceProgram& program : kTracePrograms) {
    if (program.kind != report.kind) continue;
    bpf_link** link = link_of(*skeleton, program.name);
    if (*link == nullptr) {
      *link = kernel::attach(bpf_object__find_program_by_name(skeleton->obj, program.name));
    }
    if (*link == nullptr) {
      report = {report.kind, FeatureState::refused,
                std::string("attach ") + program.target + ": " + std::strerror(errno)};
      return;
    }
    hooks += (hooks.empty() ? "attached to " : ", ") + std::string(program.target);
  }
  report.evidence = std::move(hooks);
}

void TracePrograms::Loaded::attach() {
  for (TraceKindReport& report : reports) {
    if (report.state == FeatureState::in_use) attach_kind(report);
  }
  // Programs that only a refused kind uses.
  for (const TraceProgram& program : kTracePrograms) {
    bpf_link** link = link_of(*skeleton, program.name);
    if (*link == nullptr || wanted(program.name)) continue;
    bpf_link__destroy(*link);
    *link = nullptr;
  }
}

Result<void> TracePrograms::Loaded::open_ring() {
  const auto call = [](void* self, void* record, std::size_t) {
    auto& loaded = *static_cast<Loaded*>(self);
    (*loaded.visit)(*static_cast<const abi_trace_event*>(record));
    // A negative result makes libbpf stop after this record.
    return ++loaded.visited < kDrainMax ? 0 : -EAGAIN;
  };
  ring.reset(ring_buffer__new(bpf_map__fd(skeleton->maps.records), call, this, nullptr));
  if (!ring) return errno_error("ring_buffer__new", "the tracer's records");
  return {};
}

Result<void> TracePrograms::Loaded::load(const TraceSelection& selection, const CgroupTree& tree,
                                         const FeatureSet& disabled) {
  if (has(disabled, Feature::bpf)) return Error{EPERM, "bpf is turned off by --disable-feature"};
  if (!types_.valid()) {
    return Error{ENOENT, "this kernel has no BTF (/sys/kernel/btf/vmlinux)"};
  }
  TRY(require_initial_pid_namespace());
  plan(selection, disabled);
  const std::int32_t hierarchy = memory_hierarchy(tree);
  auto loaded = try_load(selection, hierarchy);
  if (!loaded && needs_functions()) {
    // The usual refusal concerns all of fentry, so the rest is tried without it.
    const auto stall = std::ranges::find(reports, ABI_TRACE_stall, &TraceKindReport::kind);
    *stall = {ABI_TRACE_stall, FeatureState::refused, loaded.error().text()};
    loaded = try_load(selection, hierarchy);
  }
  if (!loaded) return loaded.error();
  TRY(open_ring());
  attach();
  return {};
}

TracePrograms::TracePrograms(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
TracePrograms::~TracePrograms() = default;

Result<std::unique_ptr<TracePrograms>> TracePrograms::load(const TraceSelection& selection,
                                                           const CgroupTree& tree,
                                                           const FeatureSet& disabled) {
  auto loaded = std::make_unique<Loaded>();
  TRY(loaded->load(selection, tree, disabled));
  return std::unique_ptr<TracePrograms>(new TracePrograms(std::move(loaded)));
}

const std::vector<TraceKindReport>& TracePrograms::reports() const {
  return loaded_->reports;
}

Result<void> TracePrograms::include_cgroup(CgroupId cgroup) {
  const __u64 id = cgroup.inode;
  const __u8 yes = 1;
  const int map = bpf_map__fd(loaded_->skeleton->maps.wanted);
  if (bpf_map_update_elem(map, &id, &yes, BPF_ANY) == 0) return {};
  if (errno == E2BIG) errno = ENOSPC;
  return errno_error("bpf_map_update_elem", "selected cgroups");
}

void TracePrograms::unwant(CgroupId cgroup) {
  const __u64 id = cgroup.inode;
  // Most cgroups are not in the filter themselves.
  (void)bpf_map_delete_elem(bpf_map__fd(loaded_->skeleton->maps.wanted), &id);
}

// The map itself, not libbpf's epoll descriptor, which reports only records that wake a reader.
int TracePrograms::ring_fd() const {
  return bpf_map__fd(loaded_->skeleton->maps.records);
}

std::size_t TracePrograms::drain(const std::function<void(const abi_trace_event&)>& visit) {
  loaded_->visit = &visit;
  loaded_->visited = 0;
  ring_buffer__consume(loaded_->ring.get());
  loaded_->visit = nullptr;
  return loaded_->visited;
}

void TracePrograms::about_to_wait() {
  __atomic_store_n(&loaded_->skeleton->bss->reader_waits, 1U, __ATOMIC_SEQ_CST);
}

void TracePrograms::stop() {
  forestall_trace__detach(loaded_->skeleton.get());
  // A program that was running on another CPU may still count: this waits for an RCU grace period.
  // Where the kernel refuses it, a few events may be in one counter and not yet in another.
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

std::uint64_t TracePrograms::passed_over() const {
  std::uint64_t sum = 0;
  const bpf_object_skeleton& list = *loaded_->skeleton->skeleton;
  for (int i = 0; i < list.prog_cnt; ++i) {
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    const int program = bpf_program__fd(*list.progs[i].prog);
    if (program < 0 || bpf_obj_get_info_by_fd(program, &info, &size) != 0) continue;
    sum += info.recursion_misses;
  }
  return sum;
}

Result<abi_trace_totals> TracePrograms::totals() const {
  const __u32 key = 0;
  return sum_over_cpus<abi_trace_totals>(loaded_->skeleton->maps.totals, &key);
}

Result<std::vector<TraceSum>> TracePrograms::sums(const Gone& gone) const {
  const int map = bpf_map__fd(loaded_->skeleton->maps.sums_by_cgroup);
  std::vector<abi_trace_sum> cpus(TRY(possible_cpus()));
  std::vector<TraceSum> all;
  abi_trace_key key{};
  abi_trace_key next{};
  // Only this loop deletes entries, and it reads the next key first, so it visits each entry that
  // existed at its start.
  bool more = bpf_map_get_next_key(map, nullptr, &next) == 0;
  int failure = errno;
  while (more) {
    key = next;
    more = bpf_map_get_next_key(map, &key, &next) == 0;
    failure = errno;
    const bool last = gone && gone({key.cgroup});
    const int read = last ? bpf_map_lookup_and_delete_elem(map, &key, cpus.data())
                          : bpf_map_lookup_elem(map, &key, cpus.data());
    if (read != 0) continue;
    all.push_back({{key.cgroup}, static_cast<abi_trace_kind>(key.kind), sum_of(cpus), last});
  }
  if (failure != ENOENT) return Error{failure, "bpf_map_get_next_key sums by cgroup"};
  return all;
}

}  // namespace forestall::kernel
