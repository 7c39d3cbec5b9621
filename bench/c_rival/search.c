/* The search of mr_dedup.hamming.kernels, written directly in C: what a compiler for C makes of
 * the same algorithm, for the same tables.
 *
 * A table groups the n indexed fingerprints by the bucket of their masked bits: starts[buckets + 1],
 * 32-bit signatures[n + LANES] and slots[n], positions in the array it was built from. A probe is
 * partitioned by its leading bucket bits, so that a part's buckets stay in the cache; each probing
 * fingerprint tests LANES signatures of its bucket at a time; what passes is verified later, and
 * belongs to the first table whose masked bits the pair shares. Compiled with -DK=<distance>.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 32

typedef struct {
    uint64_t mask, first, fold, second, shift;
} hashing;

typedef struct {
    hashing key;
    const uint32_t *starts, *signatures, *slots;
} table;

typedef struct {
    uint64_t fingerprint;
    uint32_t base, lanes;
} group;

static inline uint64_t bucket_of(uint64_t x, const hashing *key) {
    uint64_t mixed = (x & key->mask) * key->first;
    return ((mixed ^ mixed >> key->fold) * key->second) >> key->shift;
}

/* Each bit of x flips one bit of its signature: signatures are never further apart. */
static inline uint32_t signature_of(uint64_t x) {
    uint32_t high = (uint32_t)(x >> 32);
    return (uint32_t)x ^ (high << 1 | high >> 31);
}

#if defined(__AVX512F__) && defined(__AVX512VPOPCNTDQ__)
#include <immintrin.h>

static inline uint32_t half_within(const uint32_t *signatures, __m512i probe) {
    __m512i difference = _mm512_xor_si512(_mm512_loadu_si512(signatures), probe);
    return _mm512_cmple_epu32_mask(_mm512_popcnt_epi32(difference), _mm512_set1_epi32(K));
}

static inline uint32_t lanes_within(const uint32_t *signatures, uint32_t signature) {
    __m512i probe = _mm512_set1_epi32((int)signature);
    return half_within(signatures, probe) | half_within(signatures + 16, probe) << 16;
}
#else
/* Without a vector population count: K times the lowest bit is cleared, in a loop that compilers
 * vectorise, and the lanes are told apart only where some lane came to nothing. */
static inline uint32_t without_k_bits(uint32_t difference) {
    for (int bit = 0; bit < K; bit++) difference &= difference - 1;
    return difference;
}

static inline uint32_t lanes_within(const uint32_t *signatures, uint32_t signature) {
    uint32_t least = UINT32_MAX, lanes = 0;
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t left = K < 32 ? without_k_bits(signatures[lane] ^ signature) : 0;
        least = left < least ? left : least;
    }
    if (least != 0) return 0;
    for (int lane = 0; lane < LANES; lane++)
        lanes |= (uint32_t)(__builtin_popcount(signatures[lane] ^ signature) <= K) << lane;
    return lanes;
}
#endif

void build_table(const uint64_t *fingerprints, uint64_t n, const hashing *key, uint64_t buckets,
                 uint32_t *restrict starts, uint32_t *restrict signatures,
                 uint32_t *restrict slots) {
    memset(starts, 0, (buckets + 1) * sizeof *starts);
    for (uint64_t i = 0; i < n; i++) starts[bucket_of(fingerprints[i], key)]++;
    uint32_t sum = 0;
    for (uint64_t bucket = 0; bucket <= buckets; bucket++) {
        uint32_t size = starts[bucket];
        sum += size;
        starts[bucket] = sum;
    }
    /* filled from its end backwards, a bucket's end becomes its start */
    for (uint64_t i = n; i-- > 0;) {
        uint64_t x = fingerprints[i];
        uint32_t slot = --starts[bucket_of(x, key)];
        signatures[slot] = signature_of(x);
        slots[slot] = (uint32_t)i;
    }
    memset(signatures + n, 0, LANES * sizeof *signatures);
}

static void partition(const uint64_t *restrict stream, uint64_t n, hashing key, int part_bits,
                      uint64_t *restrict ends, uint64_t *restrict out) {
    key.shift = 64 - (uint64_t)part_bits;
    memset(ends, 0, ((1u << part_bits) + 1) * sizeof *ends);
    for (uint64_t i = 0; i < n; i++) ends[bucket_of(stream[i], &key) + 1]++;
    for (uint64_t part = 0; part < 1u << part_bits; part++) ends[part + 1] += ends[part];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t x = stream[i];
        out[ends[bucket_of(x, &key)]++] = x;
    }
}

static uint64_t verify(const group *groups, uint64_t count, const uint64_t *indexed, uint64_t n,
                       const table *tables, uint64_t number, uint64_t *out_stream,
                       uint64_t *out_indexed) {
    uint64_t written = 0;
    const table *own = &tables[number];
    for (uint64_t i = 0; i < count; i++) {
        for (uint32_t lanes = groups[i].lanes; lanes; lanes &= lanes - 1) {
            uint64_t slot = (uint64_t)groups[i].base + (uint64_t)__builtin_ctz(lanes);
            if (slot >= n) break;
            uint64_t other = indexed[own->slots[slot]];
            uint64_t difference = groups[i].fingerprint ^ other;
            if (difference & own->key.mask || __builtin_popcountll(difference) > K) continue;
            uint64_t earlier = 0;
            while (earlier < number && difference & tables[earlier].key.mask) earlier++;
            if (earlier < number) continue;
            out_stream[written] = groups[i].fingerprint;
            out_indexed[written++] = other;
        }
    }
    return written;
}

/* Probe all tables; return the pairs found, or UINT64_MAX if there are more than capacity. */
uint64_t probe(const uint64_t *stream, uint64_t n, uint64_t *scratch, int part_bits,
               const uint64_t *indexed, uint64_t indexed_n, const table *tables, uint64_t number,
               group *groups, uint64_t groups_n, uint64_t *ends, uint64_t *out_stream,
               uint64_t *out_indexed, uint64_t capacity) {
    uint64_t written = 0;
    for (uint64_t t = 0; t < number; t++) {
        const table *own = &tables[t];
        const hashing key = own->key;
        const uint32_t *starts = own->starts, *signatures = own->signatures;
        partition(stream, n, key, part_bits, ends, scratch);
        uint64_t count = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t x = scratch[i];
            uint64_t bucket = bucket_of(x, &key);
            uint32_t signature = signature_of(x);
            for (uint64_t base = starts[bucket]; base < starts[bucket + 1]; base += LANES) {
                uint32_t lanes = lanes_within(signatures + base, signature);
                if (!lanes) continue;
                groups[count++] = (group){x, (uint32_t)base, lanes};
                if (count < groups_n) continue;
                if (written + count * LANES > capacity) return UINT64_MAX;
                written += verify(groups, count, indexed, indexed_n, tables, t,
                                  out_stream + written, out_indexed + written);
                count = 0;
            }
        }
        if (written + count * LANES > capacity) return UINT64_MAX;
        written += verify(groups, count, indexed, indexed_n, tables, t, out_stream + written,
                          out_indexed + written);
    }
    return written;
}
