// SPDX-License-Identifier: Apache-2.0
#include "kernel/attach_types.h"

#include <bpf/bpf.h>

#include <bit>
#include <cerrno>
#include <string>
#include <string_view>

namespace forestall::kernel {
namespace {

struct AttachSection {
  const char* prefix;
  bpf_attach_type type;
};

constexpr std::array<AttachSection, 3> kAttachSections{{
    {"fentry/", BPF_TRACE_FENTRY},
    {"fexit/", BPF_TRACE_FEXIT},
    {"iter/", BPF_TRACE_ITER},
}};

// libbpf reads the kernel's types if a program of the object has the type `tracing`, so it has
// another one until now.
int take_attach_id(bpf_program* program, bpf_prog_load_opts* options, long cookie) {
  const auto& types = *std::bit_cast<const KernelTypes*>(cookie);
  const std::string_view section = bpf_program__section_name(program);
  std::string name(section.substr(section.find('/') + 1));
  if (section.starts_with("iter/")) name.insert(0, "bpf_iter_");
  options->attach_btf_id = types.function_id(name);
  if (options->attach_btf_id == 0) return -ESRCH;
  return bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
}

// libbpf before 1.3 uses its table of handlers after it freed it with the last one, so one stays.
bool keep_one_handler() {
  static const bool kept =
      libbpf_register_prog_handler("forestall-unused/", BPF_PROG_TYPE_RAW_TRACEPOINT,
                                   BPF_TRACE_RAW_TP, nullptr) >= 0;
  return kept;
}

}  // namespace

AttachTypes::AttachTypes(const KernelTypes& types) {
  handlers_.fill(-1);
  if (!types.valid() || !keep_one_handler()) return;
  LIBBPF_OPTS(libbpf_prog_handler_opts, options, .cookie = std::bit_cast<long>(&types),
              .prog_prepare_load_fn = take_attach_id);
  // If this fails, libbpf finds the ids itself.
  for (std::size_t i = 0; i < kAttachSections.size(); ++i) {
    handlers_[i] = libbpf_register_prog_handler(
        kAttachSections[i].prefix, BPF_PROG_TYPE_RAW_TRACEPOINT, kAttachSections[i].type, &options);
  }
}

AttachTypes::~AttachTypes() {
  for (const int handler : handlers_) {
    if (handler >= 0) libbpf_unregister_prog_handler(handler);
  }
}

bpf_link* attach(const bpf_program* program) {
  // The handler of its section may be gone.
  return bpf_program__type(program) == BPF_PROG_TYPE_TRACING ? bpf_program__attach_trace(program)
                                                             : bpf_program__attach(program);
}

}  // namespace forestall::kernel
