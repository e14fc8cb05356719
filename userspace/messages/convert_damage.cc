// SPDX-License-Identifier: Apache-2.0
// What bounds the damage of kills: the facts of a decision, kinds of memory, the kill limit.
#include "messages/convert.h"

namespace forestall::messages {

v1::MemoryKinds to_proto(const MemoryKinds& kinds) {
  v1::MemoryKinds out;
  if (kinds.anon) out.set_anon_bytes(kinds.anon->count);
  if (kinds.file) out.set_file_bytes(kinds.file->count);
  if (kinds.shmem) out.set_shmem_bytes(kinds.shmem->count);
  if (kinds.kernel) out.set_kernel_bytes(kinds.kernel->count);
  return out;
}

MemoryKinds from_proto(const v1::MemoryKinds& message) {
  MemoryKinds kinds;
  if (message.has_anon_bytes()) kinds.anon = Bytes{message.anon_bytes()};
  if (message.has_file_bytes()) kinds.file = Bytes{message.file_bytes()};
  if (message.has_shmem_bytes()) kinds.shmem = Bytes{message.shmem_bytes()};
  if (message.has_kernel_bytes()) kinds.kernel = Bytes{message.kernel_bytes()};
  return kinds;
}

v1::Damage to_proto(const Damage& damage) {
  v1::Damage out;
  out.set_kills(damage.kills);
  out.set_expected_bytes(damage.expected.count);
  out.set_freed_bytes(damage.freed.count);
  out.set_need_bytes(damage.need.count);
  if (damage.killable) out.set_killable_bytes(damage.killable->count);
  if (damage.left_behind) out.set_left_behind_bytes(damage.left_behind->count);
  if (damage.outside) out.set_outside_bytes(damage.outside->count);
  if (damage.outside_growth) out.set_outside_growth_bytes(damage.outside_growth->count);
  out.set_near_oom(damage.near_oom);
  return out;
}

Damage from_proto(const v1::Damage& message) {
  Damage damage;
  damage.kills = message.kills();
  damage.expected = Bytes{message.expected_bytes()};
  damage.freed = Bytes{message.freed_bytes()};
  damage.need = Bytes{message.need_bytes()};
  if (message.has_killable_bytes()) damage.killable = Bytes{message.killable_bytes()};
  if (message.has_left_behind_bytes()) damage.left_behind = Bytes{message.left_behind_bytes()};
  if (message.has_outside_bytes()) damage.outside = Bytes{message.outside_bytes()};
  if (message.has_outside_growth_bytes()) {
    damage.outside_growth = Bytes{message.outside_growth_bytes()};
  }
  damage.near_oom = message.near_oom();
  return damage;
}

v1::EffectiveKillLimit to_proto(const KillLimit& limit) {
  v1::EffectiveKillLimit out;
  out.set_window_ns(limit.window.count());
  out.set_node(limit.node);
  out.set_guaranteed(limit.classes[0]);
  out.set_burstable(limit.classes[1]);
  out.set_best_effort(limit.classes[2]);
  out.set_other(limit.classes[3]);
  return out;
}

KillLimit from_proto(const v1::EffectiveKillLimit& message) {
  return {Duration(message.window_ns()),
          message.node(),
          {message.guaranteed(), message.burstable(), message.best_effort(), message.other()}};
}

}  // namespace forestall::messages
